#include "core/sharding/wrapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

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

WrapPolicy parse_accelerate_wrap(std::string_view text, std::string_view where) {
  static constexpr std::array<std::pair<std::string_view, WrapPolicy>, 3> policies{
      {{"TRANSFORMER_BASED_WRAP", WrapPolicy::transformer},
       {"SIZE_BASED_WRAP", WrapPolicy::size},
       {"NO_WRAP", WrapPolicy::none}}};
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  for (const auto& [name, policy] : policies)
    if (name == upper) return policy;
  throw Refusal("ValueError",
                {.where = std::string(where),
                 .what = fmt::format("accelerate has no wrapping policy \"{}\"", text),
                 .way_out = "take TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP"});
}

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
