// Ranks that measure the same thing at the same time.
#pragma once

#include <span>

#include "backend/comm/communicator.h"
#include "core/base/quantities.h"

namespace shardscope {

/// The mean over ranks of a figure that each of them measured. Collective.
double mean_over_ranks(Communicator& world, double mine);
Duration mean_over_ranks(Communicator& world, Duration mine);

/// The middle one; the mean of the two middle ones of an even number. Zero of nothing.
Duration median(std::span<const Duration> times);

/// Now, on a clock that only goes forward.
Duration monotonic_now();

}  // namespace shardscope
