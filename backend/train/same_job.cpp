#include "backend/train/same_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <span>

#include "backend/data/token_stream.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/safetensors.h"
#include "core/model/huggingface.h"
#include "core/model/model_weights.h"

namespace shardscope {
namespace {

using Json = nlohmann::json;

/// Paths may differ from host to host, and threads and devices from rank to rank.
constexpr std::array<const char*, 7> of_one_rank{"model",  "data",  "output",      "threads",
                                                 "device", "ranks", "communicator"};

/// Tokens of the data, or bytes of the weights, that are read at most.
constexpr std::int64_t most_read = std::int64_t{64} << 20;
/// Large enough that a disk reads 1024 of them in seconds.
constexpr std::int64_t piece_size = std::int64_t{64} << 10;

/// FNV-1a, 64 bits, on words of 8 bytes; a shift takes the high bits of a word to the low ones.
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof value_))) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
      value_ = (value_ ^ word) * 0x100000001b3;
      value_ ^= value_ >> 32;
    }
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// Calls `read(begin, count)` for all of `size` where that is at most `most`, else for pieces that
/// lie evenly from begin to end, the first and the last among them.
template <class Read>
void read_pieces(std::int64_t size, std::int64_t most, Read read) {
  const std::int64_t pieces = std::max<std::int64_t>(2, most / piece_size);
  if (size <= pieces * piece_size) {
    for (std::int64_t begin = 0; begin < size; begin += piece_size)
      read(begin, std::min(piece_size, size - begin));
    return;
  }
  for (std::int64_t i = 0; i < pieces; ++i)
    read((size - piece_size) * i / (pieces - 1), piece_size);
}

/// The number of tokens, and their digest.
std::string data_text(const Job& job) {
  const TokenStream tokens = TokenStream::open(job.data, job.token_format);
  std::vector<std::int32_t> piece(piece_size);
  Digest digest;
  read_pieces(tokens.size(), most_read, [&](std::int64_t begin, std::int64_t count) {
    const std::span part = std::span(piece).first(static_cast<std::size_t>(count));
    tokens.copy(begin, part);
    digest.add(std::as_bytes(part));
  });
  return fmt::format("{} tokens with digest {}", tokens.size(), digest.text());
}

/// The header whole, of the tensors behind it at most `most` bytes.
void add_weights(const std::filesystem::path& path, const SafetensorsHeader& header,
                 std::int64_t most, Digest& digest) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(piece_size);
  const auto read = [&](std::int64_t begin, std::int64_t count) {
    file.seekg(begin);
    file.read(piece.data(), count);
    if (!file)
      throw Error({.where = path.string(),
                   .what = fmt::format("{} bytes at byte {} cannot be read", count, begin),
                   .way_out = "give the folder of a whole model"});
    digest.add(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(count))));
  };
  for (std::int64_t begin = 0; begin < header.data_begin; begin += piece_size)
    read(begin, std::min(piece_size, header.data_begin - begin));
  const std::int64_t data = header.file_bytes - header.data_begin;
  read_pieces(data, most, [&](std::int64_t begin, std::int64_t count) {
    read(header.data_begin + begin, count);
  });
}

/// Bytes and digest of all files of start weights.
std::string weights_text(const Job& job) {
  const std::vector<std::filesystem::path> paths = weight_files(job.model);
  std::vector<SafetensorsHeader> headers;
  std::int64_t bytes = 0;
  for (const auto& path : paths)
    bytes += headers.emplace_back(read_safetensors_header(path)).file_bytes;
  Digest digest;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::int64_t share = most_read / static_cast<std::int64_t>(paths.size());
    add_weights(paths[i], headers[i], bytes <= most_read ? bytes : share, digest);
  }
  return fmt::format("{} B with digest {}", bytes, digest.text());
}

std::string config_digest(const std::filesystem::path& model) {
  Digest digest;
  const std::string text = read_whole(config_path(model));
  digest.add(std::as_bytes(std::span(text)));
  return "config.json with digest " + digest.text();
}

std::string shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The first key, in depth, that differs: "lr.peak is 0.1 and 0.2".
std::optional<std::string> difference(const Json& a, const Json& b, const std::string& path) {
  if (a == b) return std::nullopt;
  if (a.is_object() && b.is_object())
    for (const auto& [key, value] : a.items()) {
      if (!b.contains(key)) continue;
      const std::string below = path.empty() ? key : path + "." + key;
      if (auto found = difference(value, b.at(key), below)) return found;
    }
  return fmt::format("{} is {} and {}", path, shown(a), shown(b));
}

/// Every rank's text; they may be of different length.
std::vector<std::string> gathered(const std::string& own, Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> lengths(ranks);
  const std::int64_t length = static_cast<std::int64_t>(own.size());
  world.all_gather(std::as_bytes(std::span(&length, 1)),
                   std::as_writable_bytes(std::span(lengths)));
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::string padded = own, all(longest * ranks, '\0');
  padded.resize(longest);
  world.all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i)
    texts.push_back(all.substr(i * longest, static_cast<std::size_t>(lengths[i])));
  return texts;
}

void refuse_difference(const std::vector<std::string>& texts) {
  const std::optional<std::string> difference = first_difference(texts);
  if (!difference) return;
  throw Error({.where = {},
               .what = *difference,
               .way_out = "start all ranks with the same job file and options"});
}

}  // namespace

std::string common_job_text(const Job& job) {
  Json json = Json::parse(to_json(job));
  for (const char* key : of_one_rank) json.erase(key);
  json["profile"].erase("records");
  json["model"] = config_digest(job.model);
  json["data"] = data_text(job);
  return json.dump();
}

std::optional<std::string> first_difference(const std::vector<std::string>& texts) {
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const auto found = difference(Json::parse(texts[0]), Json::parse(texts[rank]), "");
    return fmt::format("ranks 0 and {} run different jobs: {}", rank,
                       found.value_or("they have different keys"));
  }
  return std::nullopt;
}

std::string common_weights_text(const Job& job) {
  return Json{{"the start weights' content", weights_text(job)}}.dump();
}

void require_same_job(const Job& job, Communicator& world) {
  if (world.size() > 1) refuse_difference(gathered(common_job_text(job), world));
}

void require_same_weights(const Job& job, Communicator& world) {
  if (world.size() > 1 && job.weights == StartWeights::pretrained)
    refuse_difference(gathered(common_weights_text(job), world));
}

}  // namespace shardscope
