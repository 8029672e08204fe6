// Model flops: what a step must compute, whatever checkpointing runs again.
#pragma once

#include <string_view>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Of one rank and the last step, which repeats: forward and backward as far as they are needed.
/// What runs again counts nothing: blocks under checkpointing, and the scores that a fused
/// attention's backward computes once more (one of its five products). Gradients that nobody asks
/// for, as of frozen weights, are not computed and do not count. Where all is trained, it is three
/// times the forward's products.
Flops model_flops(const Schedule& schedule);

/// How `mfu_share` follows from them, for people.
inline constexpr std::string_view mfu_formula =
    "flops of a rank's forward and backward, without recomputation / (step time x peak of a "
    "device)";

}  // namespace shardscope
