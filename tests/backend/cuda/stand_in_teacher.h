// What the stand-in for a GPU has to know of our kernels to run them by emulation.
#pragma once

#include "core/kernel.h"

namespace shardscope::test {

/// Every body that a call of `kernel` launches.
void teach(const Kernel& kernel);
/// What brings the state of a step to the device.
void teach_step_state();

}  // namespace shardscope::test
