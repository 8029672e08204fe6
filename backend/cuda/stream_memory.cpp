#include "backend/cuda/stream_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/cuda/check.h"
#include "core/base/error.h"

namespace shardscope::cuda {
namespace {

class CudaArena final : public Arena {
 public:
  CudaArena(std::byte* data, Bytes size) : data_(data), size_(size) {}
  ~CudaArena() override { cudaFree(data_); }
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;

  std::byte* data() const override { return data_; }
  Bytes size() const override { return size_; }

 private:
  std::byte* data_;
  Bytes size_;
};

/// Memory of the host that copies run beside everything else from.
class PinnedArena final : public Arena {
 public:
  PinnedArena(std::byte* data, Bytes size) : data_(data), size_(size) {}
  ~PinnedArena() override { cudaFreeHost(data_); }
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  std::byte* data() const override { return data_; }
  Bytes size() const override { return size_; }

 private:
  std::byte* data_;
  Bytes size_;
};

Error too_little(Bytes wanted) {
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  cudaGetLastError();  // the failed allocation's, which later calls would answer again
  const auto text = [](std::size_t bytes) {
    return rounded_text(Bytes{static_cast<std::int64_t>(bytes)});
  };
  return Error({.where = "GPU memory",
                .what = fmt::format("{} were asked for, {} of {} are free", rounded_text(wanted),
                                    text(free), text(total)),
                .way_out = "lower batch or seq, shard more, or turn on checkpointing",
                .code = ExitCode::no});
}

}  // namespace

std::optional<Bytes> StreamMemory::in_use() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return Bytes{static_cast<std::int64_t>(total - free)};
}

std::unique_ptr<Arena> StreamMemory::allocate_host(Bytes size, const std::filesystem::path&) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, static_cast<std::size_t>(std::max(size.count, std::int64_t{1})),
                      cudaHostAllocDefault),
        "cudaHostAlloc");
  std::memset(memory, 0, static_cast<std::size_t>(size.count));
  return std::make_unique<PinnedArena>(static_cast<std::byte*>(memory), size);
}

std::unique_ptr<Arena> StreamMemory::allocate(Bytes size) {
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, static_cast<std::size_t>(size.count));
  if (result == cudaErrorMemoryAllocation) throw too_little(size);
  check(result, "cudaMalloc");
  auto arena = std::make_unique<CudaArena>(static_cast<std::byte*>(memory), size);
  check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(size.count), streams_.selected()),
        "cudaMemsetAsync");
  return arena;
}

void StreamMemory::copy_in(std::byte* to, std::span<const std::byte> from) {
  // From pageable memory: staged when this returns.
  check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, streams_.selected()),
        "cudaMemcpyAsync");
}

void StreamMemory::copy_out(std::span<std::byte> to, const std::byte* from) {
  check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, streams_.selected()),
        "cudaMemcpyAsync");
  wait();
}

void StreamMemory::copy(std::byte* to, std::span<const std::byte> from) {
  if (to == from.data()) return;
  check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDefault, streams_.selected()),
        "cudaMemcpyAsync");
}

void StreamMemory::wait() {
  check(cudaStreamSynchronize(streams_.selected()), "cudaStreamSynchronize");
}

}  // namespace shardscope::cuda
