#include "core/model/bounded_pattern.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::size_t max_pattern_length = 256;

}  // namespace

std::regex bounded_pattern(const std::string& pattern, const std::string& where,
                           std::string_view way_out) {
  const auto refusal = [&](std::string_view why) {
    return Error({.where = where,
                  .what = fmt::format("\"{}\" {}", pattern.substr(0, max_pattern_length), why),
                  .way_out = std::string(way_out)});
  };
  if (pattern.size() > max_pattern_length)
    throw refusal(fmt::format("is cut off here; {} characters are more than {}", pattern.size(),
                              max_pattern_length));
  // Counted repetitions multiply, and would make a small pattern a huge automaton.
  if (pattern.find('{') != std::string::npos) throw refusal("has a counted repetition");
  try {
    // Without __polynomial, libstdc++ backtracks: (a+)+$ would take forever on some names.
    return std::regex(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    throw refusal(fmt::format("is not a regular expression: {}", error.what()));
  }
}

}  // namespace shardscope
