// What a policy function answers while _recursive_wrap asks it about one module after the other.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "core/pytorch/plans/module_graph.h"
#include "core/pytorch/plans/wrapping.h"

namespace shardscope {

/// The base class of BatchNorm1d and the others, MixedPrecision._module_classes_to_ignore.
inline constexpr std::string_view batch_norm_class = "_BatchNorm";

/// True for the policies that are _Policy objects: they choose all modules before any is wrapped.
bool chooses_beforehand(const AutoWrap& wrap);

/// A policy function; with mixed precision in an "or" with the one that wraps every BatchNorm.
class WrapPolicyFunction {
 public:
  WrapPolicyFunction(const AutoWrap& wrap, const ModuleGraph& graph, bool mixed_precision);

  /// recurse=True: whether the children are visited. `elements` are the module's.
  bool enters(NodeId module, std::int64_t elements) const;
  /// recurse=False: whether the module is wrapped. `elements` are those not wrapped below it.
  bool wraps(NodeId module, std::int64_t elements) const;

 private:
  const AutoWrap* wrap_;
  const ModuleGraph* graph_;
  bool mixed_precision_;
  std::set<NodeId> named_;  ///< of NameWrap
};

}  // namespace shardscope
