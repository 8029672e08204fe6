// Memory of one GPU, copied in the order of the selected stream.
#pragma once

#include "backend/cuda/cuda_streams.h"
#include "backend/device/device_memory.h"

namespace shardscope::cuda {

class StreamMemory final : public DeviceMemory {
 public:
  /// Of the current device; `streams` must outlive it.
  explicit StreamMemory(const CudaStreams& streams) : streams_(streams) {}

  bool is_host() const override { return false; }
  std::unique_ptr<Arena> allocate(Bytes size) override;
  std::unique_ptr<Arena> allocate_host(Bytes size, const std::filesystem::path& folder) override;
  void copy_in(std::byte* to, std::span<const std::byte> from) override;
  void copy_out(std::span<std::byte> to, const std::byte* from) override;
  void copy(std::byte* to, std::span<const std::byte> from) override;
  void wait() override;
  std::optional<Bytes> in_use() const override;

 private:
  const CudaStreams& streams_;
};

}  // namespace shardscope::cuda
