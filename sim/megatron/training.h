// A training of Megatron-LM as one that can be played on a machine.
#pragma once

#include <cstdint>

#include "core/config/megatron/settings.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/megatron/divided_training.h"

namespace shardscope {

/// Whether Megatron's fused softmax takes scores of `batches` heads (of all sequences) and `length`
/// tokens. Source: Megatron-LM core/fusions/fused_softmax.py (is_kernel_available),
/// scaled_masked_softmax.h (get_batch_per_block: a block has four warps, and a warp has two rows
/// where rows are short).
bool takes_fused_softmax(std::int64_t batches, std::int64_t length);

/// `settings` must be checked. It is played as `validate` plays a published run of Megatron-LM of
/// the same settings.
DividedTraining megatron_training(const megatron::Settings& settings,
                                  const HardwareProfile& profile);

}  // namespace shardscope
