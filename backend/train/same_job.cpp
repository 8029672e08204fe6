#include "backend/train/same_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "backend/data/token_stream.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/model/huggingface.h"

namespace shardscope {
namespace {

using Json = nlohmann::json;

/// Paths may differ from host to host, and threads and devices from rank to rank.
constexpr std::array<const char*, 8> of_one_rank{"model",  "data",  "output",  "threads",
                                                 "device", "ranks", "profile", "communicator"};

/// FNV-1a, 64 bits.
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    constexpr std::uint64_t prime = 0x100000001b3;
    for (const std::byte byte : bytes)
      value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * prime;
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// The number of tokens, and a digest of pieces from begin to end.
std::string data_text(const Job& job) {
  const TokenStream tokens = TokenStream::open(job.data, job.token_format);
  constexpr std::int64_t pieces = 64, piece = 4096;
  std::vector<std::int32_t> read(piece);
  Digest digest;
  for (std::int64_t i = 0; i < pieces; ++i) {
    tokens.copy(tokens.size() / pieces * i, read);
    digest.add(std::as_bytes(std::span(read)));
  }
  return fmt::format("{} tokens with digest {}", tokens.size(), digest.text());
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

}  // namespace

std::string common_job_text(const Job& job) {
  Json json = Json::parse(to_json(job));
  for (const char* key : of_one_rank) json.erase(key);
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

void require_same_job(const Job& job, Communicator& world) {
  if (world.size() == 1) return;
  const auto difference = first_difference(gathered(common_job_text(job), world));
  if (!difference) return;
  throw Error({.where = {},
               .what = *difference,
               .way_out = "start all ranks with the same job file and options"});
}

}  // namespace shardscope
