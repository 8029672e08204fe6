// The fields of a Hugging Face config object, from the defaults of its class to what is written.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "core/format/json_reader.h"

namespace shardscope {

/// Each field's value as compact JSON text with sorted keys.
class ConfigFields {
 public:
  using Map = std::map<std::string, std::string, std::less<>>;

  bool has(std::string_view key) const { return fields_.contains(key); }
  /// Or missing.
  bool is_null(std::string_view key) const { return text(key) == "null"; }
  bool is_true(std::string_view key) const { return text(key) == "true"; }
  /// "null" if missing.
  std::string text(std::string_view key) const;
  /// Error where it is none within the bounds.
  std::int64_t integer(std::string_view key,
                       std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;

  void set(std::string_view key, std::string json);
  void set(std::string_view key, const JsonValue& value);
  void erase(std::string_view key);
  /// Where `key` is null or missing.
  void set_where_null(std::string_view key, std::string json);
  /// Where `key` is missing.
  void set_where_missing(std::string_view key, std::string json);

  /// All of them as one JSON object.
  std::string object_text() const;
  const Map& all() const { return fields_; }

 private:
  Map fields_;
};

}  // namespace shardscope
