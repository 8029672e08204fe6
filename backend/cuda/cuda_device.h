// The CUDA device. Nothing of CUDA shows here; a build without it has the same declarations.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "backend/device.h"

namespace shardscope {

struct CudaOptions {
  int index = 0;             ///< of the devices that this process may see
  bool use_cublaslt = true;  ///< else our plain matrix products
};

/// A device with memory of its own. Calls are queued on one stream, in order; an error of an
/// earlier call may be thrown by a later one. Errors have ExitCode::outside.
class CudaDevice : public Device {
 public:
  /// Uninitialised device memory, 256-byte aligned; Error with the numbers where it is too little.
  virtual void* allocate(Bytes bytes) = 0;
  virtual void free(void* memory) = 0;
  /// `host` may be used again when this returns.
  virtual void copy_in(void* device, std::span<const std::byte> host) = 0;
  /// Waits for all calls before it.
  virtual void copy_out(std::span<std::byte> host, const void* device) = 0;
  /// Waits until all calls so far have ended.
  virtual void wait() = 0;
};

/// Why this process has no CUDA device ("no NVIDIA driver was found"); empty: it has one.
std::string why_no_cuda_device();

/// Throws Error saying what is missing.
std::unique_ptr<CudaDevice> make_cuda_device(const CudaOptions& options = {});

}  // namespace shardscope
