#include "backend/comm/nccl/pending.h"

#include <algorithm>

#include "backend/cuda/check.h"

namespace shardscope {

NcclPending::NcclPending() {
  for (Place& place : ring_) place.event = cuda::make_event();
}

void NcclPending::make_room() {
  if (count_ >= capacity) ended_ = std::max(ended_, count_ - capacity + 1);
}

void NcclPending::mark(cudaStream_t stream) {
  cuda::check(cudaEventRecord(ring_[count_ % capacity].event.get(), stream), "cudaEventRecord");
}

void NcclPending::add(const CollectiveCall& call, const GroupRanks& ranks) {
  Place& place = ring_[count_ % capacity];
  place.call = call;
  place.ranks = ranks;
  place.queued_at = std::chrono::steady_clock::now();
  ++count_;
}

/// An event that cannot be asked any more says nothing of an end.
bool NcclPending::has_ended(std::uint64_t number) const {
  return cudaEventQuery(ring_[number % capacity].event.get()) == cudaSuccess;
}

std::vector<QueuedCollective> NcclPending::list() {
  std::vector<QueuedCollective> pending;
  for (std::uint64_t number = ended_; number < count_; ++number) {
    if (!has_ended(number)) {
      const Place& place = ring_[number % capacity];
      pending.push_back({number, place.call, *place.ranks, place.queued_at});
    } else if (pending.empty()) {
      ended_ = number + 1;
    }
  }
  return pending;
}

}  // namespace shardscope
