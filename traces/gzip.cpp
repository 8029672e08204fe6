#include "traces/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include "core/base/error.h"
#include "core/base/quantities.h"

namespace shardscope {
namespace {

constexpr int gzip_window_bits = 15 + 16;  // zlib: 16 asks for the gzip wrapper
constexpr int memory_level = 8;

Bytef* input_pointer(std::string_view text) {
  // zlib reads through a pointer to non-const; it never writes.
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

uInt bounded(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

/// A zlib inflate stream that is always ended.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, gzip_window_bits) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream& operator*() { return stream_; }

 private:
  z_stream stream_{};
};

}  // namespace

struct GzipWriter::State {
  z_stream stream{};
  std::string compressed;
};

GzipWriter::GzipWriter() : state_(std::make_unique<State>()) {
  if (deflateInit2(&state_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window_bits,
                   memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
}

GzipWriter::~GzipWriter() { deflateEnd(&state_->stream); }

void GzipWriter::deflate_pending(int flush) {
  std::array<char, 1 << 16> chunk;
  do {
    state_->stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    state_->stream.avail_out = chunk.size();
    deflate(&state_->stream, flush);
    state_->compressed.append(chunk.data(), chunk.size() - state_->stream.avail_out);
  } while (state_->stream.avail_out == 0);
}

void GzipWriter::append(std::string_view text) {
  while (!text.empty()) {
    state_->stream.next_in = input_pointer(text);
    state_->stream.avail_in = bounded(text.size());
    text.remove_prefix(state_->stream.avail_in);
    deflate_pending(Z_NO_FLUSH);
  }
}

std::string GzipWriter::finish() {
  deflate_pending(Z_FINISH);
  return std::move(state_->compressed);
}

bool is_gzip(std::string_view content) { return content.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view compressed, std::int64_t max_bytes, std::string_view where) {
  const auto fail = [&](std::string what, std::string way_out) {
    return Error(
        {.where = std::string(where), .what = std::move(what), .way_out = std::move(way_out)});
  };
  Inflater inflater;
  std::string text;
  std::array<char, 1 << 16> chunk;
  (*inflater).next_in = input_pointer(compressed);
  (*inflater).avail_in = bounded(compressed.size());
  if (compressed.size() > (*inflater).avail_in)
    throw fail("a gzip file of more than 4 GiB", "split it");
  while (true) {
    (*inflater).next_out = reinterpret_cast<Bytef*>(chunk.data());
    (*inflater).avail_out = chunk.size();
    const int status = inflate(&*inflater, Z_NO_FLUSH);
    text.append(chunk.data(), chunk.size() - (*inflater).avail_out);
    if (static_cast<std::int64_t>(text.size()) > max_bytes) {
      throw fail(
          fmt::format("more than {} of text after decompression", rounded_text(Bytes{max_bytes})),
          "write fewer steps to one trace");
    }
    if (status == Z_STREAM_END) {
      const bool has_another_member = (*inflater).avail_in > 0;
      if (!has_another_member) return text;
      inflateReset(&*inflater);
    } else if (status != Z_OK) {
      throw fail(
          fmt::format("a damaged or cut off gzip stream after {} bytes of text", text.size()),
          "write or copy the file again");
    }
  }
}

}  // namespace shardscope
