// What a predicted memory may be off by. The caching allocator's bytes are exact where what is
// played is; what lies outside of it, and code that is not played kernel by kernel, are not.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/prediction.h"
#include "traces/summary.h"

namespace shardscope {

/// How far measured bytes lie around predicted ones: standard deviations of ln(measured/predicted).
/// 0: they never lie on that side.
struct HeldSpread {
  std::string_view item;  ///< "compiled code"
  double below = 0, above = 0;
  std::string_view source;
};

/// Of a run's reserved bytes. Figures: docs/measured/2026-11-28_memory_band.md.
HeldSpread held_spread(const PredictedRun& run);

/// Nine of ten runs need from `bytes` - below to `bytes` + above: factors exp(-+1.645 spread), as
/// in the step time's band. Example: 550 MiB, spread 0.3: 214 MiB below, 351 MiB above.
MemoryAllowance allowance(const HeldSpread& spread, Bytes bytes);

/// Of what lies outside the allocator, by the spread of the profile's figures, and of the `held`
/// bytes of the highest step, by `held_spread`. What a schedule of the native runtime does not
/// count, CUDA's context and NCCL's buffers, lies above. Empty where nothing is uncertain.
std::vector<MemoryAllowance> memory_allowances(const Schedule& schedule, const PredictedRun& run,
                                               const HardwareProfile& profile, Bytes held);

}  // namespace shardscope
