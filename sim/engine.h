// The event engine: when each operation of a schedule starts and ends, given how long it takes
// alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/quantities.h"
#include "core/samples.h"
#include "core/schedule.h"
#include "sim/sharing.h"

namespace shardscope {

/// What the host thread does besides issuing operations in program order.
enum class HostRole : std::uint8_t {
  issues,    ///< CUDA: it runs ahead of the streams; only operations of the host stream hold it up
  computes,  ///< CPU: whatever is not a collective runs on it, so that nothing later is issued
             ///< before that has ended
};

struct EngineOptions {
  HostRole host = HostRole::issues;
  Duration issue_overhead;  ///< of the host thread, before every operation
  SharingRules sharing;
  /// Of ranks whose host computes (sim/straggling.h); none: they are always in step.
  std::vector<StragglingSample> straggling = {};
  Duration since_they_met;  ///< compute of the step before, after its ranks had last met
};

/// Times since the start of the step, by operation.
struct Timeline {
  std::vector<Duration> issued;  ///< the host reached it
  std::vector<Duration> start;
  std::vector<Duration> end;
  Duration span;            ///< end of the last one
  Duration since_they_met;  ///< compute after ranks last met, where they straggle
  bool operator==(const Timeline&) const = default;
};

/// Plays `schedule` with `times` (by operation, alone) and gives the moments of each operation.
///
/// Operations of Phase::init have run before the step: they stand at 0 and hold nothing up.
/// An operation starts when the host has issued it, the operations before it on its stream and
/// those of its `after` have ended, and the channel is free. While compute and collectives run at
/// once, each advances at 1 / its slowdown; rates change at the exact moment that one starts or
/// ends, and ends are rounded up to whole nanoseconds, so that the same input gives the same
/// timeline on every machine. A collective begins for all ranks when the last of them has come, so
/// that it is longer by as much as that one straggles. Throws Error if operations wait for each
/// other.
///
/// Example: compute of 10 us and a collective of 4 us start together, slowdowns 2 and 1: the
/// collective ends at 4 us, when 8 us of compute are left; compute ends at 12 us.
Timeline play(const Schedule& schedule, std::span<const Duration> times,
              const EngineOptions& options);

}  // namespace shardscope
