#include "core/pytorch/plans/fsdp1_policy.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

namespace shardscope {
namespace {

bool is_any_of(const TreeModule& module, const std::vector<std::string>& classes) {
  return std::any_of(classes.begin(), classes.end(),
                     [&](const std::string& name) { return module.is(name); });
}

}  // namespace

bool chooses_beforehand(const AutoWrap& wrap) {
  return std::holds_alternative<ClassWrap>(wrap) || std::holds_alternative<CustomWrap>(wrap);
}

WrapPolicyFunction::WrapPolicyFunction(const AutoWrap& wrap, const ModuleGraph& graph,
                                       bool mixed_precision)
    : wrap_(&wrap), graph_(&graph), mixed_precision_(mixed_precision) {
  if (const auto* names = std::get_if<NameWrap>(&wrap))
    for (const std::string& name : names->modules)
      named_.insert(graph.find(name, "modules to wrap"));
}

bool WrapPolicyFunction::enters(NodeId module, std::int64_t elements) const {
  const auto* size = std::get_if<SizeWrap>(wrap_);
  if (mixed_precision_ || size == nullptr) return true;
  return elements >= size->min_elements && !is_any_of(graph_->module(module), size->force_leaf);
}

bool WrapPolicyFunction::wraps(NodeId node, std::int64_t elements) const {
  const TreeModule& module = graph_->module(node);
  if (mixed_precision_ && module.is(batch_norm_class)) return true;
  if (const auto* size = std::get_if<SizeWrap>(wrap_))
    return elements >= size->min_elements && !is_any_of(module, size->exclude);
  if (const auto* transformer = std::get_if<TransformerWrap>(wrap_))
    return is_any_of(module, transformer->classes);
  if (std::holds_alternative<NameWrap>(*wrap_)) return named_.contains(node);
  return std::holds_alternative<AlwaysWrap>(*wrap_);
}

}  // namespace shardscope
