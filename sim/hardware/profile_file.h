// ProfileFile: a hardware profile's keys, with those of the built-in profile that it is based on.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/format/json_reader.h"

namespace shardscope {

/// A file and, below it, the built-in profile that its `based_on` names, which may have one itself.
/// A key of the file hides the same key of the one below; null hides it and stands for nothing.
class ProfileFile {
 public:
  /// Throws Error where `based_on` is no built-in profile's name.
  explicit ProfileFile(const JsonValue& own);

  bool has(std::string_view key) const { return find(key).has_value(); }
  std::optional<JsonValue> find(std::string_view key) const;
  /// Whether a file above the one that says `key` says `other`.
  bool is_below(std::string_view key, std::string_view other) const;
  JsonValue at(std::string_view key) const;  ///< missing in all: Error of the file itself
  const JsonValue& own() const { return layers_.front(); }

 private:
  std::vector<JsonValue> layers_;  ///< the file first
};

}  // namespace shardscope
