// Ranks that measure the same thing at the same time.
#pragma once

#include "backend/comm/communicator.h"
#include "core/base/quantities.h"

namespace shardscope {

/// The mean over ranks of a figure that each of them measured. Collective.
double mean_over_ranks(Communicator& world, double mine);
Duration mean_over_ranks(Communicator& world, Duration mine);

/// Now, on a clock that only goes forward.
Duration monotonic_now();

}  // namespace shardscope
