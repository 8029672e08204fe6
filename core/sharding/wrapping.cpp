#include "core/sharding/wrapping.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/refusal.h"

namespace shardscope {
namespace {

/// get_module_class_from_name compares names of classes and leaves their bases aside.
void check_class_is_there(const ModuleTree& tree, const std::string& name) {
  const bool there =
      std::any_of(tree.modules.begin(), tree.modules.end(),
                  [&](const TreeModule& module) { return module.class_name == name; });
  if (!there)
    throw Refusal("ValueError",
                  {.where = "transformer_cls_names_to_wrap",
                   .what = fmt::format("the model has no module of class \"{}\"", name),
                   .way_out = "name a class that `shardscope model` lists for it"});
}

}  // namespace

AutoWrap auto_wrap_of(const AccelerateWrap& wrap, const ModuleTree& tree,
                      const std::vector<std::string>& no_split_classes) {
  switch (wrap.policy) {
    case WrapPolicy::transformer: {
      TransformerWrap transformer{wrap.classes.value_or(no_split_classes)};
      for (const std::string& name : transformer.classes) check_class_is_there(tree, name);
      return transformer;
    }
    case WrapPolicy::size:
      if (wrap.min_num_params > 0) return SizeWrap{.min_elements = wrap.min_num_params};
      return NoWrap{};
    case WrapPolicy::none:
      return NoWrap{};
  }
  return NoWrap{};
}

}  // namespace shardscope
