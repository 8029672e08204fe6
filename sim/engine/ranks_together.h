// The steps of ranks that were recorded beside each other, played together at given costs.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sim/engine/event_engine.h"
#include "sim/engine/peer_arrivals.h"

namespace shardscope {

struct PlayedTogether {
  RanksTogether ranks;
  /// By schedule: how long its last step takes, from the end of the step before. Empty where the
  /// ranks wait for each other.
  std::vector<Duration> last_steps;
};

/// `peer_arrivals` with the costs of each schedule's operations.
PlayedTogether play_ranks_together(std::span<const Schedule> schedules,
                                   std::span<const StepCosts> costs,
                                   const std::function<void(std::size_t sweeps)>& on_sweep = {});

}  // namespace shardscope
