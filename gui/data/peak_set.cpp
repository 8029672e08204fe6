#include "gui/data/peak_set.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gui/data/memory_sources.h"
#include "gui/data/predicted_place.h"

namespace shardscope::gui {

std::optional<LiveSet> live_at_peak(const Scenario& scenario, SideKind kind, std::size_t rank) {
  const Side* side = scenario.side(kind);
  if (side == nullptr) return std::nullopt;
  const std::vector<MemorySource> sources = memory_sources(*side);
  if (sources.empty()) return std::nullopt;
  if (kind == SideKind::predicted && side->has_trace()) rank = predicted_place(scenario, rank);
  const MemorySource& source = sources[std::min(rank, sources.size() - 1)];
  const MemoryLevels levels = memory_levels(*side, source, memory_clock(scenario, source));
  double begin = -HUGE_VAL, end = levels.end;
  if (side->has_trace()) {
    const TimeWindow step = shown_step(*side->ranks[std::min(rank, side->ranks.size() - 1)]);
    begin = static_cast<double>(step.begin.ns);
    end = static_cast<double>(step.end.ns);
  }
  const auto peak = peak_level(levels, all_bands, begin, end);
  if (!peak) return std::nullopt;
  return live_set(scenario, source, levels.levels[*peak]);
}

}  // namespace shardscope::gui
