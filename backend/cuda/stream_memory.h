// Memory of one GPU, copied in the order of one stream.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/device_memory.h"

namespace shardscope::cuda {

class StreamMemory final : public DeviceMemory {
 public:
  /// Of the current device; `stream` must outlive it.
  explicit StreamMemory(cudaStream_t stream) : stream_(stream) {}

  bool is_host() const override { return false; }
  std::unique_ptr<Arena> allocate(Bytes size) override;
  void copy_in(std::byte* to, std::span<const std::byte> from) override;
  void copy_out(std::span<std::byte> to, const std::byte* from) override;
  void copy(std::byte* to, std::span<const std::byte> from) override;
  void wait() override;

 private:
  cudaStream_t stream_;
};

}  // namespace shardscope::cuda
