// The collectives that were queued on a GPU's streams and have not ended.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "backend/comm/queued_collectives.h"
#include "backend/cuda/cuda_streams.h"

namespace shardscope {

/// World ranks of a group, ascending.
using GroupRanks = std::shared_ptr<const std::vector<int>>;

/// Keeps the newest `capacity` of them, each with an event on its stream. Called by one thread at a
/// time but for `mark`; nothing is allocated while a collective is added, and nothing but `mark`
/// may wait.
class NcclPending {
 public:
  static constexpr std::size_t capacity = 1024;

  /// Takes all events, on the current device.
  NcclPending();

  /// The oldest one may be forgotten: its event is free for the next.
  void make_room();
  /// Behind the next one, which was queued last on `stream`. Others may ask meanwhile.
  void mark(cudaStream_t stream);
  /// The next one, which is marked, is `call`.
  void add(const CollectiveCall& call, const GroupRanks& ranks);
  std::vector<QueuedCollective> list();
  std::uint64_t count() const { return count_; }

 private:
  struct Place {
    CollectiveCall call;
    GroupRanks ranks;
    std::chrono::steady_clock::time_point queued_at;
    cuda::EventHandle event;
  };
  bool has_ended(std::uint64_t number) const;

  std::array<Place, capacity> ring_;
  std::uint64_t count_ = 0;
  std::uint64_t ended_ = 0;  ///< all before this one have
};

}  // namespace shardscope
