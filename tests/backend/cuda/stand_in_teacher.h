// What the stand-in for a GPU has to know of our kernels to run them by emulation.
#pragma once

#include "backend/device/device.h"
#include "core/native/job.h"
#include "core/schedule/kernel.h"

namespace shardscope::test {

/// Every body that a call of `kernel` launches.
void teach(const Kernel& kernel);
/// What brings the state of a step to the device.
void teach_step_state();
/// Everything that training `job` launches on `device` as one of `ranks`.
void teach_job(const Job& job, int rank, int ranks, const Device& device);

}  // namespace shardscope::test
