#include <algorithm>

#include "gui/data/predicted_place.h"
#include "gui/data/unit_rows.h"

namespace shardscope::gui {
namespace {

void add_ranks(ComparedTraces& traces, const std::vector<std::shared_ptr<const Trace>>& ranks,
               std::size_t rank) {
  if (rank >= ranks.size()) return;
  traces.profiled = ranks[rank].get();
  traces.shared = ranks[rank];
  traces.ranks.push_back(traces.profiled);
  for (std::size_t other = 0; other < ranks.size(); ++other)
    if (other != rank) traces.ranks.push_back(ranks[other].get());
}

}  // namespace

ComparedTraces compared_traces(const Scenario& scenario, std::size_t rank) {
  ComparedTraces traces;
  const Side* predicted = scenario.side(SideKind::predicted);
  if (predicted != nullptr && predicted->has_trace())
    traces.shared = predicted->ranks[predicted_place(scenario, rank)];
  traces.predicted = traces.shared.get();
  const Side* profiled = scenario.side(SideKind::profiled);
  if (profiled == nullptr) return traces;
  const bool is_matched = traces.predicted != nullptr && scenario.match &&
                          rank < scenario.match->matched.size() &&
                          rank < scenario.match->ranks.size();
  if (is_matched) traces.match = &scenario.match->ranks[rank];
  add_ranks(traces, is_matched ? scenario.match->matched : profiled->ranks, rank);
  return traces;
}

}  // namespace shardscope::gui
