// The nearest setting with which a training fits that runs out of memory.
#pragma once

#include <optional>
#include <string>

#include "cli/pytorch_scenario.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

struct Remedy {
  std::string setting;  ///< "activation checkpointing of every block (--checkpointing full)"
  Bytes reserved;       ///< with it, at the highest step
};

/// Tries single settings, those that change the training least first, and predicts each. None: no
/// single one is enough.
std::optional<Remedy> find_remedy(const PytorchScenario& scenario, const HardwareProfile& profile);

}  // namespace shardscope
