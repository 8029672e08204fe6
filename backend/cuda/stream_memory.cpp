#include "backend/cuda/stream_memory.h"

#include <fmt/format.h>

#include <cstring>

#include "backend/cuda/check.h"
#include "core/base/error.h"

namespace shardscope::cuda {
namespace {

/// Memory that the runtime gave, with the call that takes it back.
class RuntimeArena final : public Arena {
 public:
  using Release = cudaError_t (*)(void*);
  RuntimeArena(void* data, Bytes size, Release release)
      : data_(static_cast<std::byte*>(data)), size_(size), release_(release) {}
  ~RuntimeArena() override { release_(data_); }
  RuntimeArena(const RuntimeArena&) = delete;
  RuntimeArena& operator=(const RuntimeArena&) = delete;

  std::byte* data() const override { return data_; }
  Bytes size() const override { return size_; }

 private:
  std::byte* data_;
  Bytes size_;
  Release release_;
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

Error no_pinned_memory(Bytes wanted) {
  cudaGetLastError();  // the failed allocation's, which later calls would answer again
  return Error({.where = "host memory",
                .what = fmt::format("{} of pinned memory were asked for what is offloaded, and "
                                    "cannot be had",
                                    rounded_text(wanted)),
                .way_out = "shard more, use fewer ranks on this host, or offload less",
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
  const cudaError_t result =
      cudaHostAlloc(&memory, static_cast<std::size_t>(size.count), cudaHostAllocDefault);
  if (result == cudaErrorMemoryAllocation) throw no_pinned_memory(size);
  check(result, "cudaHostAlloc");
  std::memset(memory, 0, static_cast<std::size_t>(size.count));
  return std::make_unique<RuntimeArena>(memory, size, &cudaFreeHost);
}

std::unique_ptr<Arena> StreamMemory::allocate(Bytes size) {
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, static_cast<std::size_t>(size.count));
  if (result == cudaErrorMemoryAllocation) throw too_little(size);
  check(result, "cudaMalloc");
  auto arena = std::make_unique<RuntimeArena>(memory, size, &cudaFree);
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
