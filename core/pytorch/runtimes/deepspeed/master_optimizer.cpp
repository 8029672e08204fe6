#include "core/pytorch/runtimes/deepspeed/master_optimizer.h"

#include <algorithm>

namespace shardscope::eager::deepspeed {

void MasterOptimizer::step(Session& s, const Tensor& master) {
  const auto holds = [&](const ParameterOptimizer& group) {
    return group.parameters().front().impl() == master.impl();
  };
  auto group = std::find_if(groups_.begin(), groups_.end(), holds);
  if (group == groups_.end()) group = groups_.emplace(groups_.end(), Tensors{master}, settings_);
  group->step(s);
}

}  // namespace shardscope::eager::deepspeed
