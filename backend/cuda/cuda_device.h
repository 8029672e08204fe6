// The CUDA device. Nothing of CUDA shows here; a build without it has the same declarations.
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/cuda_workspace.h"
#include "backend/device/device.h"

namespace shardscope {

struct CudaOptions {
  int index = 0;             ///< of the devices that this process may see
  bool use_cublaslt = true;  ///< else our plain matrix products
  CudaAttention attention = CudaAttention::automatic;
  int host_threads = 0;  ///< of updates on the host; 0: all cores
};

/// GPUs that this process may see; 0 where there is no driver.
int cuda_device_count();

/// Why this process has no CUDA device ("no NVIDIA driver was found"); empty: it has one.
std::string why_no_cuda_device();

/// A device with memory of its own, whose calls are queued on one stream. An error of an earlier
/// call may be thrown by a later one. Throws Error saying what is missing; cuDNN only where it was
/// asked for by name.
std::unique_ptr<Device> make_cuda_device(const CudaOptions& options = {});

}  // namespace shardscope
