#include "gui/data/scenario_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

bool is_first_byte(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

std::string shortened(const std::string& label) {
  std::size_t letters = 0;
  for (std::size_t i = 0; i < label.size(); ++i)
    if (is_first_byte(label[i]) && ++letters > most_label_letters)
      return label.substr(0, i) + "\u2026";
  return label;
}

/// The parts of a path, the last one first.
std::vector<std::string> parts_from_end(const fs::path& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : path.lexically_normal())
    if (!part.empty() && part != path.root_path()) parts.push_back(part.string());
  std::reverse(parts.begin(), parts.end());
  return parts;
}

/// The `depth`-th part from the end, 0 being the last; "" of shorter paths.
std::string part_at(const Scenario& scenario, std::size_t depth) {
  const std::vector<std::string> parts = parts_from_end(scenario.path);
  return depth < parts.size() ? parts[depth] : "";
}

/// The last `depth` + 1 parts.
std::string end_from(const Scenario& scenario, std::size_t depth) {
  fs::path end;
  for (const std::string& part : parts_from_end(scenario.path)) {
    end = end.empty() ? fs::path(part) : part / end;
    if (depth-- == 0) break;
  }
  return end.string();
}

/// "batch 8", "units of 4" of "batch 8, units of 4".
std::vector<std::string> settings_in(const std::string& text) {
  std::vector<std::string> settings;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(", ", begin), text.size());
    settings.push_back(text.substr(begin, end - begin));
    begin = end + 2;
  }
  return settings;
}

bool has_all(const std::vector<std::string>& settings, const std::vector<std::string>& some) {
  return std::ranges::all_of(some, [&](const std::string& one) {
    return std::ranges::find(settings, one) != settings.end();
  });
}

using Tell = std::string (*)(const Scenario&, std::size_t depth);
using Alike = std::vector<std::size_t>;  ///< places of scenarios with one label

bool tells_apart(const std::vector<ScenarioPointer>& all, const Alike& alike, Tell tell,
                 std::size_t depth) {
  std::set<std::string> words;
  for (const std::size_t i : alike) words.insert(tell(*all[i], depth));
  return words.size() == alike.size() && words.count("") == 0;
}

/// Those of its settings that not all of these have, in its order.
std::string own_settings(const std::vector<ScenarioPointer>& all, const Alike& alike,
                         const Scenario& scenario) {
  std::string text;
  for (const std::string& one : settings_in(scenario.settings)) {
    const bool is_common = std::ranges::all_of(
        alike, [&](std::size_t i) { return has_all(settings_in(all[i]->settings), {one}); });
    if (!is_common) text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

/// Whether they differ in what was set.
bool tell_apart_by_settings(const std::vector<ScenarioPointer>& all, const Alike& alike,
                            std::vector<std::string>& labels) {
  std::vector<std::string> told;
  for (const std::size_t i : alike) told.push_back(own_settings(all, alike, *all[i]));
  const std::set<std::string> different(told.begin(), told.end());
  if (different.size() < told.size() || different.contains("")) return false;
  for (std::size_t i = 0; i < alike.size(); ++i) labels[alike[i]] += fmt::format(" ({})", told[i]);
  return true;
}

void tell_apart(const std::vector<ScenarioPointer>& all, const Alike& alike,
                std::vector<std::string>& labels) {
  std::size_t deepest = 0;
  if (tell_apart_by_settings(all, alike, labels)) return;
  for (const std::size_t i : alike)
    deepest = std::max(deepest, parts_from_end(all[i]->path).size());
  for (const Tell tell : {Tell(part_at), Tell(end_from)})
    for (std::size_t depth = 0; depth < deepest; ++depth) {
      if (!tells_apart(all, alike, tell, depth)) continue;
      for (const std::size_t i : alike) labels[i] += fmt::format(" ({})", tell(*all[i], depth));
      return;
    }
}

/// What may stand behind its label.
std::vector<std::string> words_behind(const Scenario& scenario) {
  std::vector<std::string> words;
  for (std::size_t depth = 0; depth < parts_from_end(scenario.path).size(); ++depth)
    words.insert(words.end(), {part_at(scenario, depth), end_from(scenario, depth)});
  return words;
}

}  // namespace

std::vector<std::string> labels_apart(const std::vector<ScenarioPointer>& all) {
  std::vector<std::string> labels;
  std::map<std::string, Alike> alike;
  for (std::size_t i = 0; i < all.size(); ++i) {
    labels.push_back(shortened(own_label(*all[i])));
    alike[labels.back()].push_back(i);
  }
  for (const auto& [label, places] : alike)
    if (places.size() > 1) tell_apart(all, places, labels);
  return labels;
}

std::string own_label(const Scenario& scenario) {
  const std::string& label = scenario.label;
  const std::size_t bracket = label.rfind(" (");
  if (bracket != std::string::npos && label.ends_with(')')) {
    const std::string behind = label.substr(bracket + 2, label.size() - bracket - 3);
    if (has_all(settings_in(scenario.settings), settings_in(behind)))
      return label.substr(0, bracket);
  }
  for (const std::string& word : words_behind(scenario)) {
    const std::string behind = fmt::format(" ({})", word);
    if (label.ends_with(behind)) return label.substr(0, label.size() - behind.size());
  }
  return label;
}

}  // namespace shardscope::gui
