// The CUDA device's kernels, run on the CPU by emulation.
#pragma once

#include <memory>

#include "backend/device/device.h"

namespace shardscope::test {

std::unique_ptr<Device> make_emulated_cuda_device();

}  // namespace shardscope::test
