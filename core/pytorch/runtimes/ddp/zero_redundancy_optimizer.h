// torch.distributed.optim.ZeroRedundancyOptimizer: each rank steps its own part of the parameters.
#pragma once

#include <functional>
#include <vector>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::ddp {

/// What ZeroRedundancyOptimizer's own code does, told to whoever watches.
class ZeroWatcher {
 public:
  virtual ~ZeroWatcher() = default;
  virtual void on_sync_begin(Session&) {}                     ///< _sync_params
  virtual void on_broadcast_begin(Session&, int /*rank*/) {}  ///< _broadcast_params_from_rank
  virtual void on_broadcast_end(Session&) {}
  virtual void on_sync_end(Session&) {}
};

/// Of torch 2.15, without overlap_with_ddp.
class ZeroRedundancyOptimizer {
 public:
  struct Options {
    bool parameters_as_bucket_view = false;
    std::vector<ZeroWatcher*> watchers = {};  ///< not owned
  };
  /// The local optimizer is the caller's, over `own_parameters()`; `step` steps it.
  ZeroRedundancyOptimizer(Session& s, Tensors parameters, const ProcessGroup& group,
                          Options options);

  /// By rank: indices of the parameters that it owns (zero_redundancy_partition).
  const std::vector<std::vector<std::size_t>>& partition() const { return partition_; }
  Tensors own_parameters() const;

  /// Steps the local optimizer, then broadcasts every rank's part.
  void step(const std::function<void()>& local_step);

 private:
  void make_partition();
  void make_buckets();
  void broadcast_from(int rank);

  Session& s_;
  Tensors parameters_;
  const ProcessGroup& group_;
  Options options_;
  std::vector<std::vector<std::size_t>> partition_;
  Tensors buckets_;                 ///< by rank
  std::vector<WorkId> broadcasts_;  ///< that are not waited for yet
};

}  // namespace shardscope::eager::ddp
