// Reads the keys of a Hugging Face config.json with transformers' defaults, and refuses what no
// model can have.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// A view of config.json over the defaults of its family. A key that is missing has its default; a
/// wrong type, also null where a value is needed, is an Error with file, line and key.
class ConfigReader {
 public:
  /// `defaults`: those of the family; those of every config stand behind them.
  ConfigReader(JsonValue config, JsonValue defaults, TransformersVersion version);

  TransformersVersion version() const { return version_; }

  /// A size from 1 to 2^26, under the first of `keys` that is there: other names of the key, then
  /// the family's own (as in transformers, where the other is set later).
  std::int64_t size(std::initializer_list<std::string_view> keys) const;
  std::optional<std::int64_t> optional_size(std::string_view key) const;
  /// A number of layers, experts or the like, 1 to 4096.
  std::int64_t layers(std::initializer_list<std::string_view> keys) const;
  std::int64_t integer(std::string_view key) const;
  /// Above 0; release 5 refuses an integer where the class declares a float.
  double positive(std::string_view key) const;
  /// From 0 to 1.
  double probability(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::string text(std::string_view key) const;
  /// initializer_range as the weights of Linear and Embedding are drawn: 0 means 0.02. Source:
  /// PreTrainedModel._init_weights, "range or 0.02".
  double deviation(std::string_view key) const;
  /// torch.nn.Embedding takes pad_token_id as padding_idx, and refuses one beyond its rows.
  void check_padding_token(std::int64_t rows) const;
  /// The length of id2label, num_labels, or 2. Where both stand and differ transformers 4 believes
  /// the first, 5 the second.
  std::int64_t labels() const;

  /// The dtype of a part that its class builds by from_config, where that differs from the rest's.
  std::optional<Dtype> part_dtype() const { return part_dtype_; }
  void build_parts_in(Dtype dtype) { part_dtype_ = dtype; }

  /// Whether the family's config class has the key.
  bool declares(std::string_view key) const;
  /// In the config, else in the defaults; none if missing in both, or null.
  std::optional<JsonValue> find(std::string_view key) const;
  /// "file:line: key" of a key that is there, else of the whole config.
  Error error(std::string_view key, std::string what, std::string way_out = {}) const;

 private:
  JsonValue first_of(std::initializer_list<std::string_view> keys) const;

  const JsonValue& config() const { return sources_.front(); }

  std::vector<JsonValue> sources_;  ///< the first that has a key counts
  TransformersVersion version_;
  std::optional<Dtype> part_dtype_;
};

/// A number above 0, or an Error.
double positive_number(const JsonValue& value);

}  // namespace shardscope
