#include "sim/planner/answer/basis.h"

namespace shardscope::planner {

Basis::Basis(const Inputs& of)
    : inputs(of),
      costs(of.profile),
      findings(of.model, of.config),
      trials{.model = of.model,
             .config = of.config,
             .training = of.question.training,
             .profile = of.profile,
             .costs = costs,
             .native_target = of.native_target,
             .allocator = of.allocator,
             .margin = of.margin.value_or(Bytes{}),
             .findings = &findings,
             .host_memory = of.host_memory} {}

}  // namespace shardscope::planner
