#include "core/pytorch/runtimes/ddp/zero_redundancy_optimizer.h"

#include <cstdint>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/plans/zero_redundancy.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::ddp {

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(Session& s, Tensors parameters,
                                                 const ProcessGroup& group, Options options)
    : s_(s), parameters_(std::move(parameters)), group_(group), options_(std::move(options)) {
  make_partition();
  if (options_.parameters_as_bucket_view) make_buckets();
}

void ZeroRedundancyOptimizer::make_partition() {
  std::vector<std::int64_t> elements;
  for (const Tensor& parameter : parameters_) elements.push_back(parameter.numel());
  partition_ = zero_redundancy_partition(elements, group_.size());
}

/// _build_param_buckets: the parameters become views of one tensor a rank.
void ZeroRedundancyOptimizer::make_buckets() {
  const NoGrad no_grad(s_);
  for (const std::vector<std::size_t>& owned : partition_) {
    std::int64_t numel = 0;
    for (const std::size_t index : owned)
      if (parameters_[index].requires_grad()) numel += parameters_[index].numel();
    if (numel == 0) {
      buckets_.push_back(zeros(s_, {1}, like(parameters_.front(), Dtype::float32)));
      continue;
    }
    const Tensor bucket = empty(s_, {numel}, like(parameters_[owned.front()]));
    std::int64_t offset = 0;
    for (const std::size_t index : owned) {
      const Tensor& parameter = parameters_[index];
      if (!parameter.requires_grad()) {
        parameter.set_data(clone(s_, detach(s_, parameter)));
        continue;
      }
      const std::int64_t count = parameter.numel();
      const Tensor part = narrow(s_, bucket, 0, offset, count);
      copy_(s_, part, view(s_, detach(s_, parameter), {-1}));
      parameter.set_data(view(s_, part, parameter.sizes()));
      offset += count;
    }
    buckets_.push_back(bucket);
  }
}

Tensors ZeroRedundancyOptimizer::own_parameters() const {
  Tensors own;
  for (const std::size_t index : partition_[static_cast<std::size_t>(group_.rank)])
    own.push_back(parameters_[index]);
  return own;
}

void ZeroRedundancyOptimizer::step(const std::function<void()>& local_step) {
  local_step();
  for (ZeroWatcher* watcher : options_.watchers) watcher->on_sync_begin(s_);
  for (int rank = 0; rank < group_.size(); ++rank) {
    for (ZeroWatcher* watcher : options_.watchers) watcher->on_broadcast_begin(s_, rank);
    broadcast_from(rank);
    for (ZeroWatcher* watcher : options_.watchers) watcher->on_broadcast_end(s_);
  }
  for (const WorkId work : std::exchange(broadcasts_, {})) s_.wait_work(work);
  for (ZeroWatcher* watcher : options_.watchers) watcher->on_sync_end(s_);
}

void ZeroRedundancyOptimizer::broadcast_from(int rank) {
  if (options_.parameters_as_bucket_view) {
    broadcasts_.push_back(
        broadcast(s_, group_, buckets_[static_cast<std::size_t>(rank)], rank, true));
    return;
  }
  for (const std::size_t index : partition_[static_cast<std::size_t>(rank)])
    broadcasts_.push_back(broadcast(s_, group_, detach(s_, parameters_[index]), rank, true));
}

}  // namespace shardscope::eager::ddp
