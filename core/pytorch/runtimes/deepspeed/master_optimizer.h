// The optimizer that DeepSpeed steps: on its float32 masters instead of the model's parameters.
#pragma once

#include <deque>

#include "core/pytorch/runtimes/common/optimizer.h"

namespace shardscope::eager::deepspeed {

/// A torch optimizer whose parameter groups are stepped one by one.
class MasterOptimizer {
 public:
  explicit MasterOptimizer(const OptimizerSettings& settings) : settings_(settings) {}

  /// The step of the group that holds this master alone; state is made with the first one.
  void step(Session& s, const Tensor& master);
  /// One for each master, in the order of their first steps.
  const std::deque<ParameterOptimizer>& groups() const { return groups_; }

 private:
  OptimizerSettings settings_;
  std::deque<ParameterOptimizer> groups_;
};

}  // namespace shardscope::eager::deepspeed
