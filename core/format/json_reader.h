// JSON with positions: every value knows its file, line and key path, so that every complaint can
// name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace shardscope {

/// What to do with a key that stands twice in an object.
enum class DuplicateKeys : std::uint8_t { refuse, last_wins };

/// A view of one value in a parsed document, which it keeps alive. Copy freely. Every accessor
/// throws Error whose `where` is "file:line: key.path" and whose text names what was expected and
/// what stands there.
class JsonValue {
 public:
  /// Nesting deeper than 256 and files over `max_bytes` are refused. Comments are not JSON.
  static JsonValue read_file(const std::filesystem::path& path,
                             DuplicateKeys duplicates = DuplicateKeys::refuse,
                             std::int64_t max_bytes = 256 << 20);
  static JsonValue parse(std::string_view text, std::string_view file_name,
                         DuplicateKeys duplicates = DuplicateKeys::refuse);

  bool is_null() const;
  bool is_boolean() const;
  bool is_integer() const;
  bool is_number() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  bool boolean() const;
  std::int64_t integer(std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  double number(double min = -std::numeric_limits<double>::infinity(),
                double max = std::numeric_limits<double>::infinity()) const;
  std::string string() const;

  std::size_t size() const;                                        ///< of an array or object
  JsonValue operator[](std::size_t index) const;                   ///< of an array
  std::vector<JsonValue> elements() const;                         ///< of an array
  std::vector<std::pair<std::string, JsonValue>> members() const;  ///< of an object, in file order

  bool has(std::string_view key) const;
  JsonValue at(std::string_view key) const;                   ///< missing: Error
  std::optional<JsonValue> find(std::string_view key) const;  ///< missing or null: nullopt
  /// Throws for a member whose key is not in `known`, naming the nearest known key.
  void only_keys(std::initializer_list<std::string_view> known) const;
  void only_keys(const std::vector<std::string_view>& known) const;

  std::string where() const;  ///< "file:line: key.path"
  Error error(std::string what, std::string way_out = {}) const;
  std::string dump() const;  ///< the value as compact JSON text

 private:
  struct Node;
  struct Document;
  JsonValue(std::shared_ptr<const Document> document, std::uint32_t node)
      : document_(std::move(document)), node_(node) {}
  const Node& node() const;
  Error expected(std::string_view what) const;

  std::shared_ptr<const Document> document_;
  std::uint32_t node_ = 0;
};

}  // namespace shardscope
