// Reads the keys of a Hugging Face config.json with transformers' defaults, and refuses what no
// model can have.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "core/format/json_reader.h"

namespace shardscope {

/// A view of config.json. A key that is missing or null has its default; a wrong type is an Error
/// with file, line and key.
class ConfigReader {
 public:
  explicit ConfigReader(JsonValue config) : config_(std::move(config)) {}

  /// A size from 1 to 2^26, under the first of `keys` that is there (a family's own name, then the
  /// common one).
  std::int64_t size(std::initializer_list<std::string_view> keys, std::int64_t otherwise) const;
  std::optional<std::int64_t> optional_size(std::string_view key) const;
  /// A number of layers, 1 to 4096.
  std::int64_t layers(std::initializer_list<std::string_view> keys, std::int64_t otherwise) const;
  double positive(std::string_view key, double otherwise) const;
  /// From 0 to 1.
  double probability(std::string_view key, double otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  /// num_labels, or the number of entries of id2label, or 2.
  std::int64_t labels() const;

  std::optional<JsonValue> find(std::string_view key) const { return config_.find(key); }
  /// "file:line: key" of a key that is there, else of the whole config.
  Error error(std::string_view key, std::string what, std::string way_out = {}) const;

 private:
  std::optional<JsonValue> first_of(std::initializer_list<std::string_view> keys) const;

  JsonValue config_;
};

}  // namespace shardscope
