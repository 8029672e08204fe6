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

using Tell = std::string (*)(const Scenario&, std::size_t depth);
using Alike = std::vector<std::size_t>;  ///< places of scenarios with one label

bool tells_apart(const std::vector<ScenarioPointer>& all, const Alike& alike, Tell tell,
                 std::size_t depth) {
  std::set<std::string> words;
  for (const std::size_t i : alike) words.insert(tell(*all[i], depth));
  return words.size() == alike.size() && words.count("") == 0;
}

void tell_apart(const std::vector<ScenarioPointer>& all, const Alike& alike,
                std::vector<std::string>& labels) {
  std::size_t deepest = 0;
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
  for (const std::string& word : words_behind(scenario)) {
    const std::string behind = fmt::format(" ({})", word);
    if (label.ends_with(behind)) return label.substr(0, label.size() - behind.size());
  }
  return label;
}

}  // namespace shardscope::gui
