#include "core/model/trainable.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/model/bounded_pattern.h"

namespace shardscope {
namespace {

constexpr std::string_view way_out =
    "give a regular expression on parameter names, for example \"q_proj|v_proj\"";

}  // namespace

void freeze_all_but(Model& model, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  for (Parameter& parameter : model.parameters) parameter.trainable = false;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::string where = fmt::format("trainable[{}]", i);
    const std::regex pattern = bounded_pattern(patterns[i], where, way_out);
    bool found = false;
    for (Parameter& parameter : model.parameters) {
      if (!std::regex_search(parameter.name, pattern)) continue;
      parameter.trainable = true;
      found = true;
    }
    if (!found)
      throw Error({.where = where,
                   .what = fmt::format("\"{}\" matches none of the model's {} parameters",
                                       patterns[i], model.parameters.size()),
                   .way_out = std::string(way_out)});
  }
}

}  // namespace shardscope
