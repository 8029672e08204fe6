#include "traces/import/text_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>
#include <vector>

#include "core/base/error.h"
#include "traces/gzip.h"

namespace shardscope {
namespace {

constexpr int gzip_window_bits = 15 + 16;
constexpr std::size_t block_bytes = 1 << 18;
constexpr std::size_t tar_block = 512;
constexpr std::size_t max_tar_name = 4096;

struct KindOfFile {
  mode_t mode;
  std::string_view name;
};
constexpr std::array<KindOfFile, 5> kinds_of_files{{{S_IFIFO, "a pipe"},
                                                    {S_IFSOCK, "a socket"},
                                                    {S_IFCHR, "a device"},
                                                    {S_IFBLK, "a device"},
                                                    {S_IFDIR, "a folder"}}};

Error no_regular_file(const std::string& path, mode_t mode) {
  const auto kind =
      std::find_if(kinds_of_files.begin(), kinds_of_files.end(),
                   [&](const KindOfFile& known) { return known.mode == (mode & S_IFMT); });
  const std::string_view name = kind == kinds_of_files.end() ? "no regular file" : kind->name;
  return Error({.where = path,
                .what = fmt::format("{}, and no file that can be read again", name),
                .way_out = "write what comes out of it to a file, and give that"});
}

class FileInput : public TextInput {
 public:
  explicit FileInput(const std::filesystem::path& path)
      : path_(path.string()),
        // O_NONBLOCK: a pipe that nobody writes to must not hold us here.
        descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) fail();
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0 && !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw no_regular_file(path_, status.st_mode);
    }
  }
  ~FileInput() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileInput(const FileInput&) = delete;
  FileInput& operator=(const FileInput&) = delete;

  std::size_t read(std::span<char> out) override {
    std::size_t got = 0;
    while (got < out.size()) {
      const ssize_t count = ::read(descriptor_, out.data() + got, out.size() - got);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      if (count == 0) break;
      got += static_cast<std::size_t>(count);
    }
    consumed_ += static_cast<std::int64_t>(got);
    return got;
  }
  std::int64_t consumed_bytes() const override { return consumed_; }

 private:
  [[noreturn]] void fail() const {
    throw Error({.where = path_, .what = fmt::format("cannot be read: {}", std::strerror(errno))});
  }

  std::string path_;
  int descriptor_;
  std::int64_t consumed_ = 0;
};

class GzipInput : public TextInput {
 public:
  explicit GzipInput(std::unique_ptr<TextInput> input)
      : input_(std::move(input)), block_(block_bytes) {
    if (inflateInit2(&stream_, gzip_window_bits) != Z_OK) throw std::bad_alloc();
  }
  ~GzipInput() override { inflateEnd(&stream_); }
  GzipInput(const GzipInput&) = delete;
  GzipInput& operator=(const GzipInput&) = delete;

  std::size_t read(std::span<char> out) override {
    const std::size_t wanted = std::min<std::size_t>(out.size(), 1u << 30);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(wanted);
    while (stream_.avail_out > 0 && !is_done_) inflate_some();
    return wanted - stream_.avail_out;
  }
  std::string problem() const override { return problem_; }
  std::int64_t consumed_bytes() const override { return input_->consumed_bytes(); }

 private:
  void fill() {
    if (stream_.avail_in > 0) return;
    stream_.next_in = block_.data();
    stream_.avail_in =
        static_cast<uInt>(input_->read({reinterpret_cast<char*>(block_.data()), block_.size()}));
  }

  void inflate_some() {
    fill();
    if (stream_.avail_in == 0) return stop("a gzip stream that is cut off");
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_OK) return;
    if (status != Z_STREAM_END) return stop("a damaged gzip stream");
    fill();
    is_done_ = stream_.avail_in == 0;
    if (is_done_) return;
    if (*stream_.next_in != 0x1f) return stop("bytes that are no gzip behind a gzip stream");
    earlier_ += stream_.total_out;
    inflateReset(&stream_);
  }

  void stop(std::string_view what) {
    is_done_ = true;
    problem_ = fmt::format("{}, after {} bytes of text", what, earlier_ + stream_.total_out);
  }

  std::unique_ptr<TextInput> input_;
  std::vector<Bytef> block_;
  z_stream stream_{};
  std::uint64_t earlier_ = 0;  ///< bytes of text of the members behind us
  bool is_done_ = false;
  std::string problem_;
};

/// A number of a tar header: octal text, or base 256 where the first bit is set.
std::int64_t tar_number(std::string_view field) {
  if (static_cast<unsigned char>(field[0]) & 0x80) {
    std::int64_t value = static_cast<unsigned char>(field[0]) & 0x7F;
    for (const char c : field.substr(1)) {
      if (value > std::int64_t{1} << 50) return -1;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
  std::int64_t value = 0;
  std::from_chars(field.data(), field.data() + field.size(), value, 8);
  return value;
}

std::string tar_text(std::string_view field) {
  return std::string(field.substr(0, std::min(field.find('\0'), field.size())));
}

}  // namespace

std::unique_ptr<TextInput> open_bytes(const std::filesystem::path& path) {
  return std::make_unique<FileInput>(path);
}

std::unique_ptr<TextInput> decompressed(std::unique_ptr<TextInput> input) {
  auto peeked = std::make_unique<PeekedInput>(std::move(input));
  if (is_gzip(peeked->peek(2))) return std::make_unique<GzipInput>(std::move(peeked));
  return peeked;
}

std::string_view PeekedInput::peek(std::size_t bytes) {
  if (front_.size() < bytes) {
    const std::size_t had = front_.size();
    front_.resize(bytes);
    front_.resize(had + input_->read({front_.data() + had, bytes - had}));
  }
  return std::string_view(front_).substr(0, bytes);
}

std::size_t PeekedInput::read(std::span<char> out) {
  const std::size_t from_front = std::min(front_.size(), out.size());
  std::copy_n(front_.data(), from_front, out.data());
  front_.erase(0, from_front);
  return from_front + input_->read(out.subspan(from_front));
}

std::size_t WatchedInput::read(std::span<char> out) {
  constexpr std::int64_t pause_bytes = std::int64_t{4} << 20;
  const std::size_t got = input_->read(out);
  read_ += static_cast<std::int64_t>(got);
  if (read_ > watch_.max_bytes)
    throw Error({.where = watch_.name,
                 .what = fmt::format("{} of it hold more than {} of text",
                                     rounded_text(Bytes{consumed_bytes()}),
                                     rounded_text(Bytes{watch_.max_bytes})),
                 .way_out = "unpack it, and give what is a trace"});
  if (read_ - asked_at_ < pause_bytes) return got;
  asked_at_ = read_;
  if (watch_.is_over(consumed_bytes()))
    throw Error({.what = "stopped", .code = ExitCode::interrupted});
  return got;
}

/// Bytes of one file of an archive that stays open behind it.
class TarArchive::Member : public TextInput {
 public:
  explicit Member(TarArchive& archive) : archive_(archive) {}
  std::size_t read(std::span<char> out) override {
    const auto wanted = std::min<std::size_t>(out.size(), static_cast<std::size_t>(archive_.left_));
    const std::size_t got = archive_.input_->read(out.first(wanted));
    archive_.left_ -= static_cast<std::int64_t>(got);
    is_cut_ |= got < wanted;
    return got;
  }
  std::string problem() const override {
    return is_cut_ ? "a tar archive that is cut off" : archive_.input_->problem();
  }
  std::int64_t consumed_bytes() const override { return archive_.input_->consumed_bytes(); }

 private:
  TarArchive& archive_;
  bool is_cut_ = false;
};

void TarArchive::skip(std::int64_t bytes) {
  std::array<char, 1 << 14> ignored;
  while (bytes > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(bytes, ignored.size()));
    const std::size_t got = input_->read(std::span(ignored).first(wanted));
    if (got == 0) return;
    bytes -= static_cast<std::int64_t>(got);
  }
}

std::optional<std::string> TarArchive::next() {
  std::string long_name;
  for (;;) {
    skip(left_ + padding_);
    std::array<char, tar_block> header{};
    if (input_->read(header) < tar_block || header[0] == '\0') return std::nullopt;
    const std::string_view text(header.data(), header.size());
    left_ = tar_number(text.substr(124, 12));
    if (!looks_like(text) || left_ < 0) return std::nullopt;
    size_ = Bytes{left_};
    padding_ = (tar_block - left_ % tar_block) % tar_block;
    const char type = text[156];
    if (type == 'L' && left_ <= static_cast<std::int64_t>(max_tar_name)) {  // GNU: of the next one
      long_name.resize(static_cast<std::size_t>(left_));
      left_ -= static_cast<std::int64_t>(input_->read(long_name));
      long_name = tar_text(long_name);
    } else if (type == '0' || type == '\0') {
      const std::string prefix = tar_text(text.substr(345, 155));
      if (!long_name.empty()) return long_name;
      return (prefix.empty() ? "" : prefix + "/") + tar_text(text.substr(0, 100));
    }
  }
}

std::unique_ptr<TextInput> TarArchive::content() { return std::make_unique<Member>(*this); }

bool TarArchive::looks_like(std::string_view first_bytes) {
  return first_bytes.size() >= tar_block && first_bytes.substr(257, 5) == "ustar";
}

}  // namespace shardscope
