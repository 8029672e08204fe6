// Units that mix frozen parameters with others.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "core/pytorch/plans/module_graph.h"

namespace shardscope {

/// Those of `units` whose own parameters, ignored ones left out, are partly frozen, in post-order.
/// To be asked before any of them is wrapped. Source: torch 2.15 distributed/fsdp/_wrap_utils.py
/// (_validate_frozen_params).
std::vector<NodeId> units_partly_frozen(ModuleGraph& graph, const std::set<NodeId>& units,
                                        const std::function<bool(HeldParameterId)>& ignored);

}  // namespace shardscope
