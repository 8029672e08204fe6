#include "gui/data/find_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "core/format/nearest_word.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

bool is_path_of(const Scenario& scenario, const fs::path& name) {
  const fs::path path = scenario.path.lexically_normal();
  return path.filename() == name || path == fs::absolute(name).lexically_normal() ||
         path == name.lexically_normal();
}

}  // namespace

ScenarioPointer find_scenario(const std::vector<ScenarioPointer>& all, const std::string& name,
                              const std::string& option) {
  std::vector<std::string_view> labels;
  for (const ScenarioPointer& scenario : all) {
    if (scenario->label == name) return scenario;
    labels.push_back(scenario->label);
  }
  const auto same = std::find_if(all.begin(), all.end(), [&](const ScenarioPointer& scenario) {
    return is_path_of(*scenario, name);
  });
  if (same != all.end()) return *same;
  const auto near = nearest_word(name, labels);
  throw Error({.where = option,
               .what = fmt::format("nothing that is open is called \"{}\"", name),
               .way_out = near ? fmt::format("did you mean \"{}\"?", *near)
                               : fmt::format("there is {}", fmt::join(labels, ", "))});
}

}  // namespace shardscope::gui
