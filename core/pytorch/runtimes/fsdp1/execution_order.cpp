#include "core/pytorch/runtimes/fsdp1/execution_order.h"

#include "core/pytorch/runtimes/fsdp1/flat_handle.h"

namespace shardscope::eager::fsdp1 {

void ExecutionOrder::record_pre_forward(FlatHandle& handle) {
  if (iteration_ > 0 || handle.progress.pre_forward_index) return;
  handle.progress.pre_forward_index = pre_forward_.size();
  pre_forward_.push_back(&handle);
}

void ExecutionOrder::record_post_forward(FlatHandle& handle) {
  // The library tests the index for truth, so that a handle at place 0 that runs again moves.
  if (handle.progress.post_forward_index.value_or(0) == 0)
    handle.progress.post_forward_index = post_forward_.size();
  post_forward_.push_back(&handle);
}

FlatHandle* ExecutionOrder::to_prefetch_in_backward(const FlatHandle& current) const {
  const auto index = current.progress.post_forward_index;
  return index && *index > 0 ? post_forward_[*index - 1] : nullptr;
}

FlatHandle* ExecutionOrder::to_prefetch_in_forward(const FlatHandle& current) const {
  const auto index = current.progress.pre_forward_index;
  return index && *index + 1 < pre_forward_.size() ? pre_forward_[*index + 1] : nullptr;
}

void ExecutionOrder::next_iteration() {
  ++iteration_;
  post_forward_.clear();
}

}  // namespace shardscope::eager::fsdp1
