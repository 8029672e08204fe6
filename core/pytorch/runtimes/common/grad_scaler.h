// torch.amp.GradScaler: the loss scaled up for float16, gradients scaled down before the step.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager {

/// Where ranks hold shards of the gradients, so that an infinity on one has to reach the others.
struct InfinitySharing {
  /// Of ShardedGradScaler: the result, once. Source: torch/distributed/fsdp/sharded_grad_scaler.py.
  const ProcessGroup* of_result = nullptr;
  /// Of gradients that are DTensors: after the check of each dtype. Source:
  /// torch/distributed/tensor/_dispatch.py, found_inf_reduce_handler.
  const ProcessGroup* of_each_check = nullptr;
};

/// Of one optimizer. The steps of a schedule are those that find no infinity. Source:
/// torch/amp/grad_scaler.py of torch 2.15.
class GradScaler {
 public:
  /// The groups must outlive the scaler.
  explicit GradScaler(InfinitySharing sharing = {}) : sharing_(sharing) {}

  /// The loss times the scale, which is made with the first one.
  Tensor scale(Session& s, const Tensor& loss);
  /// Before clipping; step() does it otherwise.
  void unscale(Session& s, const ParameterOptimizer& optimizer);
  /// Reads back whether an infinity was found, which waits for the device, and steps; a fused
  /// optimizer is told on the device instead.
  void step(Session& s, ParameterOptimizer& optimizer);
  void update(Session& s);

 private:
  Tensor found_inf_after_unscaling(Session& s, const ParameterOptimizer& optimizer,
                                   const Tensor& inverse_scale, const Tensor& found_inf) const;
  void share_check(Session& s, const Tensor& found_inf) const;
  void share_result(Session& s, const Tensor& found_inf) const;
  void step_fused(Session& s, ParameterOptimizer& optimizer);

  InfinitySharing sharing_;
  Tensor scale_;
  Tensor growth_tracker_;
  Tensor found_inf_;       ///< of this step; None: nothing checked yet
  bool unscaled_ = false;  ///< in this step
};

}  // namespace shardscope::eager
