// Model flops: what a step must compute, whatever the strategy runs again.
#pragma once

#include <string_view>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Of one rank and the last step, which repeats: three times the forward's, as the backward of a
/// matrix product is twice its forward. Running a block again counts nothing.
Flops model_flops(const Schedule& schedule);

/// How `mfu_share` follows from them, for people.
inline constexpr std::string_view mfu_formula =
    "3 x flops of the forward kernels of a rank's step / (step time x peak of a device)";

}  // namespace shardscope
