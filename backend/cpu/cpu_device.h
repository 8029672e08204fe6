// The CPU as a device: our own kernels for the widest instruction set that the processor has, and
// oneDNN for matrix products where it is there.
#pragma once

#include <memory>

#include "backend/device/device.h"

namespace shardscope {

struct CpuOptions {
  int threads = 1;         ///< of one kernel; 0: one for every core that this process may use
  bool use_onednn = true;  ///< false: our own plain matrix product
};

/// Results are bit-equal for equal options, and but for oneDNN's products independent of `threads`.
/// Token ids must lie within the vocabulary, targets too or be -100.
std::unique_ptr<Device> make_cpu_device(const CpuOptions& options);

}  // namespace shardscope
