#include "gui/data/predicted_place.h"

#include <algorithm>

namespace shardscope::gui {

std::size_t predicted_place(const Scenario& scenario, std::size_t place) {
  const Side& predicted = *scenario.predicted;
  const std::size_t stages = predicted.ranks.size();
  const bool has_profiled = scenario.profiled && place < scenario.profiled->ranks.size();
  if (stages == 1 || !has_profiled || !predicted.summary) return std::min(place, stages - 1);
  const auto world = static_cast<std::size_t>(std::max(1, predicted.summary->world));
  const auto rank = static_cast<std::size_t>(std::max(0, scenario.profiled->ranks[place]->rank));
  return std::min(rank * stages / world, stages - 1);
}

}  // namespace shardscope::gui
