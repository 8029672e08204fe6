// What kernels take while ranks of one host wait for one another.
#pragma once

#include <functional>
#include <vector>

#include "backend/comm/communicator.h"
#include "backend/device/device.h"
#include "core/schedule/samples.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// 1 to 8, 16, 32, .. and `all`.
std::vector<int> ranks_that_compute(int all);

/// Turns of `rank` in a ring of `ranks` where so many tokens go round `laps` times: a rank computes
/// once for each token that it gets, and passes it on. Ranks 0 to tokens - 1 begin with one.
struct RingTurns {
  int count = 0;
  bool begins = false;      ///< without waiting for a token
  bool passes_last = true;  ///< else the token of the last turn ends its laps here
  bool operator==(const RingTurns&) const = default;
};
RingTurns ring_turns(int rank, int ranks, int tokens, int laps);

/// This rank's turns: `compute` is called once a turn. Collective.
void pass_tokens(Communicator& world, const std::function<void()>& compute, int tokens, int laps);

/// Pieces of the schedule's forward and backward go from rank to rank: one token for each of 1, 2,
/// .. ranks that compute at once. A piece is as long as an action of a pipeline with a stage for
/// each rank, of up to 8 stages. All kernels' operands are on the device meanwhile.
/// A sample is the time of a piece as a share of its time while all ranks compute for themselves.
/// It includes how much longer the way to the next rank takes than without pieces, so that it can
/// be above 1: a rank that gets a token may wait for a core. A number of ranks whose
/// share is lost in the noise has no sample.
/// Of a device that is the host, whose ranks are all of `world`. Collective.
std::vector<CoreSharingSample> time_core_sharing(Communicator& world, Device& device,
                                                 const Schedule& schedule, Duration budget);

}  // namespace shardscope
