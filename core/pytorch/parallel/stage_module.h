// A pipeline stage's module with the data parallelism around it. Source: torch 2.15,
// pipelining/stage.py.
#pragma once

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"
#include "core/pytorch/runtimes/fsdp2/fully_shard.h"

namespace shardscope::eager::parallel {

/// Nothing here is owned. The stage is in FSDP2, in DDP, or in neither. Gradients are divided by
/// `grad_scale_factor`.
class StageModule {
 public:
  StageModule(Session& s, Module& module, fsdp2::FullySharded* sharded,
              ddp::DistributedDataParallel* replicated, int grad_scale_factor);

  bool is_sharded() const { return sharded_ != nullptr; }
  bool is_replicated() const { return replicated_ != nullptr; }
  Tensors parameters() const;

  /// forward_maybe_with_nosync.
  Tensor forward(const Tensor& input, const Tensors& more = {});
  /// backward_maybe_with_nosync around a backward; `last` of this stage in a step.
  void backward(bool last, const std::function<void()>& run);

  /// The actions UNSHARD, RESHARD, REDUCE_GRAD and WAIT_REDUCE_GRAD; see there what they do where
  /// nothing is sharded.
  void unshard();
  void wait_for_unshard();
  void reshard();
  void start_reduction();
  void end_reduction();

 private:
  fsdp2::State& root() const { return *sharded_->state_of(module_); }
  void scale_gradients();

  Session& s_;
  Module& module_;
  fsdp2::FullySharded* sharded_;
  ddp::DistributedDataParallel* replicated_;
  int grad_scale_factor_;
};

}  // namespace shardscope::eager::parallel
