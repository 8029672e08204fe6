// In which order units ran, for prefetching.
#pragma once

#include <cstddef>
#include <vector>

namespace shardscope::eager::fsdp1 {

class FlatHandle;

/// _ExecOrderData, prefetching one ahead. The order before forwards is that of the first iteration,
/// the order after them that of this one. Source: torch 2.15, _exec_order_utils.py.
class ExecutionOrder {
 public:
  void record_pre_forward(FlatHandle& handle);
  void record_post_forward(FlatHandle& handle);
  /// The handle that ran before `current` in this forward; null: none.
  FlatHandle* to_prefetch_in_backward(const FlatHandle& current) const;
  /// The handle that ran after `current` in the first forward; null: none.
  FlatHandle* to_prefetch_in_forward(const FlatHandle& current) const;
  void next_iteration();

 private:
  std::vector<FlatHandle*> pre_forward_;
  std::vector<FlatHandle*> post_forward_;
  std::size_t iteration_ = 0;
};

}  // namespace shardscope::eager::fsdp1
