#include "core/model/trainable.h"

#include <fmt/core.h>

#include <algorithm>
#include <regex>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::size_t max_pattern_length = 256;

Error refusal(std::size_t index, const std::string& pattern, std::string_view why) {
  return Error(
      {.where = fmt::format("trainable[{}]", index),
       .what = fmt::format("\"{}\" {}", pattern.substr(0, max_pattern_length), why),
       .way_out = "give a regular expression on parameter names, for example \"q_proj|v_proj\""});
}

std::regex compiled(std::size_t index, const std::string& pattern) {
  if (pattern.size() > max_pattern_length) {
    throw refusal(index, pattern,
                  fmt::format("is cut off here; {} characters are more than {}", pattern.size(),
                              max_pattern_length));
  }
  // Counted repetitions multiply, and would make a small pattern a huge automaton.
  if (pattern.find('{') != std::string::npos)
    throw refusal(index, pattern, "has a counted repetition");
  try {
    // Without __polynomial, libstdc++ backtracks: (a+)+$ would take forever on some names.
    return std::regex(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    throw refusal(index, pattern, fmt::format("is not a regular expression: {}", error.what()));
  }
}

}  // namespace

void freeze_all_but(Model& model, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  for (Parameter& parameter : model.parameters) parameter.trainable = false;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::regex pattern = compiled(i, patterns[i]);
    bool found = false;
    for (Parameter& parameter : model.parameters) {
      if (!std::regex_search(parameter.name, pattern)) continue;
      parameter.trainable = true;
      found = true;
    }
    if (!found)
      throw refusal(
          i, patterns[i],
          fmt::format("matches none of the model's {} parameters", model.parameters.size()));
  }
}

}  // namespace shardscope
