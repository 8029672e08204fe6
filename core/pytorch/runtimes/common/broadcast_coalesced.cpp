#include "core/pytorch/runtimes/common/broadcast_coalesced.h"

#include <array>
#include <deque>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/plans/ddp_buckets.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::ddp {
namespace {

constexpr std::size_t max_in_flight = 2;

/// BroadcastWork.
struct InFlight {
  Tensors tensors;
  Tensor flat;
  WorkId sent;
};

InFlight start(Session& s, const ProcessGroup& group, Tensors tensors) {
  Tensors parts;
  for (const Tensor& tensor : tensors) parts.push_back(view(s, contiguous(s, tensor), {-1}));
  const Tensor flat = parts.size() == 1 ? parts.front() : cat(s, parts);
  const WorkId sent = broadcast(s, group, flat, 0, true);
  return {.tensors = std::move(tensors), .flat = flat, .sent = sent};
}

/// torch::utils::unflatten_dense_tensors.
Tensors unflattened(Session& s, const InFlight& work) {
  Tensors parts;
  std::int64_t offset = 0;
  for (const Tensor& tensor : work.tensors) {
    const std::int64_t count = tensor.numel();
    parts.push_back(view(s, narrow(s, work.flat, 0, offset, count), tensor.sizes()));
    offset += count;
  }
  return parts;
}

void finish(Session& s, const InFlight& work) {
  s.wait_work(work.sent);
  const Tensors parts = unflattened(s, work);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].numel() > 0) copy_(s, work.tensors[i], parts[i], true);
}

}  // namespace

void broadcast_coalesced(Session& s, const ProcessGroup& group, const Tensors& tensors,
                         Bytes bucket) {
  if (tensors.empty()) return;
  std::vector<BucketTensor> sizes;
  for (const Tensor& tensor : tensors)
    sizes.push_back({.bytes = tensor.bytes(), .dtype = tensor.dtype(), .index = {}});
  std::deque<InFlight> in_flight;
  const std::array limits{bucket};
  for (const Bucket& assigned : assign_buckets(sizes, limits, BucketOrder::by_first_index)) {
    if (in_flight.size() >= max_in_flight) {
      finish(s, in_flight.front());
      in_flight.pop_front();
    }
    Tensors together;
    for (const std::int64_t index : assigned.tensors)
      together.push_back(tensors[static_cast<std::size_t>(index)]);
    in_flight.push_back(start(s, group, std::move(together)));
  }
  for (; !in_flight.empty(); in_flight.pop_front()) finish(s, in_flight.front());
}

}  // namespace shardscope::eager::ddp
