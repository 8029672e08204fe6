#include "sim/planner/answer/basis.h"

#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

/// 0 where the device's memory is not known.
Bytes usual_margin_of(const HardwareProfile& profile) {
  return profile.memory > Bytes{} ? usual_margin(profile.memory) : Bytes{};
}

}  // namespace

Basis::Basis(const Inputs& of)
    : inputs(of),
      costs(of.profile),
      findings(of.model, of.config, of.question.training),
      trials{.model = of.model,
             .config = of.config,
             .training = of.question.training,
             .profile = of.profile,
             .costs = costs,
             .native_target = of.native_target,
             .allocator = of.allocator,
             .margin = of.margin.value_or(usual_margin_of(of.profile)),
             .findings = &findings,
             .host_memory = of.host_memory} {}

}  // namespace shardscope::planner
