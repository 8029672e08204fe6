#include "gui/data/find_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string_view>

#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "gui/data/scenario_labels.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

bool is_path_of(const Scenario& scenario, const fs::path& name) {
  const fs::path path = scenario.path.lexically_normal();
  return path.filename() == name || path == fs::absolute(name).lexically_normal() ||
         path == name.lexically_normal();
}

/// Null: none is.
ScenarioPointer only_one(const std::vector<ScenarioPointer>& all,
                         const std::function<bool(const Scenario&)>& is, const std::string& name,
                         const std::string& option) {
  std::vector<ScenarioPointer> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const ScenarioPointer& scenario) { return is(*scenario); });
  if (found.size() < 2) return found.empty() ? nullptr : found.front();
  std::vector<std::string> labels;
  for (const ScenarioPointer& scenario : found)
    labels.push_back(fmt::format("\"{}\"", scenario->label));
  throw Error({.where = option,
               .what = fmt::format("{} that are open are called \"{}\"", found.size(), name),
               .way_out = fmt::format("say which: {}", fmt::join(labels, ", "))});
}

}  // namespace

ScenarioPointer find_scenario(const std::vector<ScenarioPointer>& all, const std::string& name,
                              const std::string& option) {
  using Is = std::function<bool(const Scenario&)>;
  for (const Is& is : {Is([&](const Scenario& one) { return one.label == name; }),
                       Is([&](const Scenario& one) { return own_label(one) == name; }),
                       Is([&](const Scenario& one) { return is_path_of(one, name); })})
    if (const ScenarioPointer found = only_one(all, is, name, option)) return found;
  std::vector<std::string_view> labels;
  for (const ScenarioPointer& scenario : all) labels.push_back(scenario->label);
  const auto near = nearest_word(name, labels);
  throw Error({.where = option,
               .what = fmt::format("nothing that is open is called \"{}\"", name),
               .way_out = near ? fmt::format("did you mean \"{}\"?", *near)
                               : fmt::format("there is {}", fmt::join(labels, ", "))});
}

}  // namespace shardscope::gui
