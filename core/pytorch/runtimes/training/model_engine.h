// What takes the training loop's calls in the place of the model, loss and optimizer.
#pragma once

#include <deque>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/held_tensor.h"
#include "core/pytorch/runtimes/common/optimizer.h"

namespace shardscope::eager {

/// Counts micro-batches, clips, steps and clears gradients itself, as a DeepSpeedEngine does.
class ModelEngine {
 public:
  virtual ~ModelEngine() = default;
  virtual Tensors forward(Arguments batch) = 0;
  virtual void backward(const Tensor& loss) = 0;
  /// Ends a micro-batch: steps and clears gradients where an accumulation ends.
  virtual void step() = 0;
  /// Counts so many micro-batches that are not run.
  virtual void leave_out(int micro_batches) = 0;
  /// What it holds now by itself.
  virtual std::vector<HeldTensor> held() const = 0;
  /// The optimizer's parameter groups.
  virtual const std::deque<ParameterOptimizer>& optimizers() const = 0;
};

}  // namespace shardscope::eager
