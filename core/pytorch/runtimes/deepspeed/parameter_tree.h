// What core/pytorch/plans wants to know of an engine's parameters.
#pragma once

#include "core/pytorch/plans/deepspeed_zero.h"
#include "core/pytorch/runtimes/deepspeed/setup.h"

namespace shardscope::eager::deepspeed {

/// The parameters alone, in their order: no modules below the root.
ModuleTree parameter_tree(const std::vector<NamedParameter>& parameters);

OptimizerGroups optimizer_groups(const std::vector<ParameterIndices>& groups);

ZeroSettings zero_settings(const Setup& setup);

}  // namespace shardscope::eager::deepspeed
