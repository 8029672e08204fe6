// Whole numbers in environment variables.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace shardscope {

/// The number that `text` spells, whole and nothing else ("12", "-1"); nothing for "", "1x", " 1"
/// and what overflows int.
inline std::optional<int> parse_integer(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace shardscope
