#include "tests/recordings/json_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

std::string shortened(const Json& value) {
  constexpr std::size_t longest = 120;
  std::string text = value.dump();
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

std::string words(const std::string& path, const Json& expected, const Json& got) {
  return fmt::format("{}: expected {}, got {}", path, shortened(expected), shortened(got));
}

std::string array_difference(const std::string& path, const Json& expected, const Json& got) {
  for (std::size_t i = 0; i < std::min(expected.size(), got.size()); ++i)
    if (const auto d = json_difference(fmt::format("{}[{}]", path, i), expected[i], got[i]);
        !d.empty())
      return d;
  if (expected.size() == got.size()) return {};
  const bool missing = got.size() < expected.size();
  const std::size_t at = std::min(expected.size(), got.size());
  return fmt::format("{}: expected {} elements, got {}; the first {} is {}", path, expected.size(),
                     got.size(), missing ? "missing" : "too many",
                     shortened(missing ? expected[at] : got[at]));
}

std::string object_difference(const std::string& path, const Json& expected, const Json& got) {
  for (auto e = expected.begin(), g = got.begin(); e != expected.end() || g != got.end();
       ++e, ++g) {
    if (e == expected.end()) return fmt::format("{}: the key \"{}\" is too many", path, g.key());
    if (g == got.end()) return fmt::format("{}: the key \"{}\" is missing", path, e.key());
    if (e.key() != g.key())
      return fmt::format("{}: expected the key \"{}\", got \"{}\"", path, e.key(), g.key());
    if (const auto d = json_difference(path + "." + e.key(), *e, *g); !d.empty()) return d;
  }
  return {};
}

}  // namespace

std::string json_difference(const std::string& path, const Json& expected, const Json& got) {
  if (expected.is_array() && got.is_array()) return array_difference(path, expected, got);
  if (expected.is_object() && got.is_object()) return object_difference(path, expected, got);
  // 1 and 1.0 are different values here: a reader may tell them apart.
  const bool same_kind =
      expected.type() == got.type() || (expected.is_number_integer() && got.is_number_integer());
  return same_kind && expected == got ? std::string() : words(path, expected, got);
}

}  // namespace shardscope::recordings
