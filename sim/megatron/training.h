// A training of Megatron-LM as one that can be played on a machine.
#pragma once

#include "core/config/megatron/settings.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/megatron/divided_training.h"

namespace shardscope {

/// `settings` must be checked. It is played as `validate` plays a published run of Megatron-LM of
/// the same settings.
DividedTraining megatron_training(const megatron::Settings& settings,
                                  const HardwareProfile& profile);

}  // namespace shardscope
