// What the simulator says of a training under PyTorch's runtimes on a machine.
#pragma once

#include "cli/prediction.h"
#include "cli/pytorch_scenario.h"
#include "core/pytorch/engine/kernel_scratch.h"
#include "core/schedule/schedule.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Compute capability of the profile's devices.
GpuKind gpu_of(const HardwareProfile& profile);

/// The schedule of set-up and of the first two steps and the steady one.
Schedule pytorch_schedule(const PytorchScenario& scenario);

/// Simulates the scenario's rank, with host thread and caching allocator. Throws Error for a
/// profile that is no GPU's.
Prediction predict(const PytorchScenario& scenario, const HardwareProfile& profile);

}  // namespace shardscope
