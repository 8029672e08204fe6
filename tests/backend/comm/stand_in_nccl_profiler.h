// The stand-in's side of NCCL's profiler plugins: looks for one as NCCL does, and tells it of
// collectives, proxies and their steps from the threads that NCCL has for them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardscope::test {

/// One communicator's.
class StandInProfiler {
 public:
  StandInProfiler(int ranks, int rank);
  StandInProfiler(const StandInProfiler&) = delete;
  StandInProfiler& operator=(const StandInProfiler&) = delete;
  ~StandInProfiler();

  /// Within the caller's call. What comes back belongs to it for as long as a graph may hold it.
  void* call(const char* function);
  /// When the collective is launched: 1 channel on a ring, the bytes in two transfers each way.
  void launch(void* call, const char* function, std::size_t bytes);

 private:
  void tell(void* call, const char* function, std::size_t bytes);
  void network(void* collective, bool is_send, std::size_t bytes);

  int rank_ = 0;
  void* context_ = nullptr;
  std::uint64_t sequence_ = 0;
};

}  // namespace shardscope::test
