#include "backend/checkpoint/checkpoint_index.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/checkpoint/checksum.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view schema = "shardscope.checkpoint/1";
constexpr std::int64_t largest_index_bytes = std::int64_t{1} << 30;
constexpr std::int64_t most_elements = std::int64_t{1} << 48;
constexpr std::int64_t most_ranks = 1 << 20;

std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::uint32_t crc32_of_text(const JsonValue& value) {
  const std::string text = value.string();
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, 16);
  if (text.size() != 8 || error != std::errc() || stop != end)
    throw value.error(fmt::format("expected 8 hexadecimal digits, got {}", value.dump()));
  return number;
}

Json json_of(const StoredPiece& piece) {
  return {{"tensor", piece.tensor},
          {"shape", piece.shape},
          {"key_first", piece.key_first},
          {"first", piece.first},
          {"elements", piece.elements}};
}

Json json_of(const std::vector<StoredKey>& keys) {
  Json array = Json::array();
  for (const StoredKey& key : keys) {
    Json checksums = Json::array(), pieces = Json::array();
    for (const std::uint32_t value : key.crc32) checksums.push_back(crc32_text(value));
    for (const StoredPiece& piece : key.pieces) pieces.push_back(json_of(piece));
    array.push_back({{"key", key.key},
                     {"dtype", name_of(key.dtype)},
                     {"crc32", std::move(checksums)},
                     {"pieces", std::move(pieces)}});
  }
  return array;
}

StoredPiece piece_of(const JsonValue& value) {
  value.only_keys({"tensor", "shape", "key_first", "first", "elements"});
  StoredPiece piece{.tensor = value.at("tensor").string()};
  std::int64_t whole = 1;
  for (const JsonValue& dimension : value.at("shape").elements()) {
    piece.shape.push_back(dimension.integer(0, most_elements));
    if (__builtin_mul_overflow(whole, piece.shape.back(), &whole) || whole > most_elements)
      throw value.error("the shape has more than 2^48 elements");
  }
  piece.key_first = value.at("key_first").integer(0, most_elements);
  piece.first = value.at("first").integer(0, most_elements);
  piece.elements = value.at("elements").integer(0, most_elements);
  if (piece.elements > whole - piece.first)
    throw value.error(fmt::format("elements {} to {} are outside of the {} of {}", piece.first,
                                  piece.first + piece.elements, whole, piece.tensor));
  return piece;
}

/// A JSON number, or null for what is not finite.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_or_nan(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  return value ? value->number() : std::nan("");
}

Json json_of(const TrainingProgress& progress) {
  return {{"step", progress.step},
          {"skipped_steps", progress.skipped_steps},
          {"next_token", progress.next_token},
          {"data_tokens", progress.data_tokens},
          {"seed", progress.seed},
          {"loss", number_or_null(progress.loss)},
          {"gradient_norm", number_or_null(progress.gradient_norm)},
          {"learning_rate", progress.learning_rate},
          {"elapsed_s", progress.elapsed_s}};
}

TrainingProgress progress_of(const JsonValue& value) {
  TrainingProgress progress;
  progress.step = value.at("step").integer(0);
  progress.skipped_steps = value.at("skipped_steps").integer(0, progress.step);
  progress.next_token = value.at("next_token").integer(0);
  progress.data_tokens = value.at("data_tokens").integer(0);
  progress.seed = static_cast<std::uint64_t>(value.at("seed").integer(0));
  progress.loss = number_or_nan(value, "loss");
  progress.gradient_norm = number_or_nan(value, "gradient_norm");
  progress.learning_rate = value.at("learning_rate").number();
  progress.elapsed_s = value.at("elapsed_s").number(0);
  return progress;
}

CheckpointLayout layout_of(const JsonValue& value) {
  return {.world = static_cast<int>(value.at("world").integer(1, most_ranks)),
          .strategy = value.at("strategy").string(),
          .mesh = value.at("mesh").string(),
          .wrap = value.at("wrap").string(),
          .precision = value.at("precision").string()};
}

StoredFile file_of(const JsonValue& value) {
  StoredFile file{.name = value.at("name").string(),
                  .bytes = value.at("bytes").integer(0),
                  .header_crc32 = crc32_of_text(value.at("header_crc32")),
                  .keys = keys_of_json(value.at("keys"))};
  const std::filesystem::path path = file.name;
  if (file.name.empty() || path.filename() != path || file.name.starts_with("."))
    throw value.at("name").error("expected the name of a file in this folder");
  return file;
}

/// The index's text behind its first line, which has the checksum of it.
std::string checked_text(const std::filesystem::path& path) {
  const auto damaged = [&](const std::string& what) {
    return Error({.where = path.string(),
                  .what = what,
                  .way_out = "the checkpoint is damaged; take another one"});
  };
  std::string text = read_whole(path, largest_index_bytes);
  constexpr std::string_view begin = "{\"crc32\": \"";
  constexpr std::size_t digits = 8;
  const std::size_t first_line = text.find('\n');
  if (!text.starts_with(begin) || first_line == std::string::npos)
    throw damaged("does not begin with its checksum");
  const std::string said = text.substr(begin.size(), digits);
  const std::string found = crc32_text(crc32_of(std::string_view(text).substr(first_line + 1)));
  if (said != found) throw damaged(fmt::format("has the checksum {} and says {}", found, said));
  return text;
}

}  // namespace

std::string tensor_name(std::string_view state, std::string_view parameter) {
  return fmt::format("{}/{}", state, parameter);
}

StateAndParameter split_tensor_name(std::string_view tensor) {
  const std::size_t slash = tensor.find('/');
  if (slash == std::string_view::npos) return {{}, tensor};
  return {tensor.substr(0, slash), tensor.substr(slash + 1)};
}

std::string keys_to_json(const std::vector<StoredKey>& keys) { return dump(json_of(keys)); }

std::vector<StoredKey> keys_of_json(const JsonValue& keys) {
  std::vector<StoredKey> result;
  for (const JsonValue& value : keys.elements()) {
    value.only_keys({"key", "dtype", "crc32", "pieces"});
    StoredKey key{.key = value.at("key").string(),
                  .dtype = parse_dtype(value.at("dtype").string(), value.at("dtype").where())};
    for (const JsonValue& checksum : value.at("crc32").elements())
      key.crc32.push_back(crc32_of_text(checksum));
    for (const JsonValue& piece : value.at("pieces").elements())
      key.pieces.push_back(piece_of(piece));
    result.push_back(std::move(key));
  }
  return result;
}

std::string to_json(const CheckpointIndex& index) {
  Json files = Json::array();
  for (const StoredFile& file : index.files)
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"header_crc32", crc32_text(file.header_crc32)},
                     {"keys", json_of(file.keys)}});
  const Json json{{"schema", schema},
                  {"kind", name_of(index.kind)},
                  {"progress", json_of(index.progress)},
                  {"layout",
                   {{"world", index.layout.world},
                    {"strategy", index.layout.strategy},
                    {"mesh", index.layout.mesh},
                    {"wrap", index.layout.wrap},
                    {"precision", index.layout.precision}}},
                  {"job", Json::parse(index.job)},
                  {"files", std::move(files)}};
  const std::string rest = dump(json, 1).substr(2) + "\n";  // without its "{\n"
  return fmt::format("{{\"crc32\": \"{}\",\n{}", crc32_text(crc32_of(rest)), rest);
}

CheckpointIndex read_checkpoint_index(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / checkpoint_index_name;
  const JsonValue json = JsonValue::parse(checked_text(path), path.string());
  const JsonValue said = json.at("schema");
  if (said.string() != schema)
    throw said.error(fmt::format("expected \"{}\", got {}", schema, said.dump()));
  CheckpointIndex index;
  index.kind = parse_checkpoint_kind(json.at("kind").string(), json.at("kind").where());
  index.progress = progress_of(json.at("progress"));
  index.layout = layout_of(json.at("layout"));
  index.job = json.at("job").dump();
  for (const JsonValue& file : json.at("files").elements()) index.files.push_back(file_of(file));
  return index;
}

}  // namespace shardscope
