#include "cli/phases_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "core/base/quantities.h"

namespace shardscope {
namespace {

using planner::PhaseMemory;
using Json = nlohmann::ordered_json;

/// The training as a phase, before the first one that follows it.
std::vector<PhaseMemory> with_training(std::vector<PhaseMemory> phases, const Summary& training) {
  const PhaseMemory train{.phase = "train",
                          .peak_allocated = training.memory.peak_allocated,
                          .peak_active = training.memory.peak_active,
                          .peak_reserved = training.memory.peak_reserved,
                          .reserved = training.memory.peak_reserved,
                          .host_per_node = training.host_memory_of_node.value_or(Bytes{}),
                          .fits = !training.out_of_memory.has_value()};
  if (!phases.empty() && phases.back().phase == "train") phases.pop_back();
  const auto place = std::find_if(phases.begin(), phases.end(), [](const PhaseMemory& phase) {
    return phase.phase == "evaluate" || phase.phase == "save";
  });
  phases.insert(place, train);
  return phases;
}

}  // namespace

bool all_fit(const std::vector<PhaseMemory>& phases) {
  return std::all_of(phases.begin(), phases.end(),
                     [](const PhaseMemory& phase) { return phase.fits; });
}

std::string phases_text(const std::vector<PhaseMemory>& given, const Summary& training,
                        const Painter& painter) {
  const std::vector<PhaseMemory> phases = with_training(given, training);
  Table table({{"phase"},
               {"allocated", Align::right},
               {"reserved", Align::right},
               {"host of a node", Align::right},
               {""}});
  for (const PhaseMemory& phase : phases)
    table.row({phase.phase, rounded_text(phase.peak_allocated), rounded_text(phase.peak_reserved),
               phase.host_per_node.count > 0 ? rounded_text(phase.host_per_node) : "-",
               Cell(phase.fits ? "" : "out of memory", phase.fits ? Paint::plain : Paint::bad)});
  const auto highest = std::max_element(phases.begin(), phases.end(),
                                        [](const PhaseMemory& a, const PhaseMemory& b) {
                                          return a.peak_allocated.count < b.peak_allocated.count;
                                        });
  return "memory by phase, on the device and at most:\n\n" + table.text(painter) +
         fmt::format(
             "\nThe phase {} allocates most. Each phase must also leave room for the {} that the "
             "process holds outside the allocator.\n",
             highest->phase, rounded_text(training.memory.outside));
}

std::string with_phases(const std::string& summary_json, const std::vector<PhaseMemory>& given,
                        const Summary& training) {
  Json root = Json::parse(summary_json);
  Json rows = Json::array();
  for (const PhaseMemory& phase : with_training(given, training))
    rows.push_back({{"phase", phase.phase},
                    {"fits", phase.fits},
                    {"memory",
                     {{"peak_allocated_bytes", phase.peak_allocated.count},
                      {"peak_active_bytes", phase.peak_active.count},
                      {"peak_reserved_bytes", phase.peak_reserved.count}}},
                    {"host_memory", {{"per_node_bytes", phase.host_per_node.count}}}});
  root["phases"] = std::move(rows);
  if (!all_fit(given)) root["fits"] = false;
  return root.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shardscope
