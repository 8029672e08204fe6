#include "core/pytorch/plans/tensor_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "core/base/error.h"

namespace shardscope {
namespace {

struct NamedStyle {
  std::string_view module;  ///< the end of its name
  TensorStyle style;
};

constexpr std::array of_decoders{
    NamedStyle{"self_attn.q_proj", TensorStyle::colwise},
    NamedStyle{"self_attn.k_proj", TensorStyle::colwise},
    NamedStyle{"self_attn.v_proj", TensorStyle::colwise},
    NamedStyle{"self_attn.o_proj", TensorStyle::rowwise},
    NamedStyle{"mlp.gate_proj", TensorStyle::colwise},
    NamedStyle{"mlp.up_proj", TensorStyle::colwise},
    NamedStyle{"mlp.down_proj", TensorStyle::rowwise},
    NamedStyle{"embed_tokens", TensorStyle::embedding_rowwise},
    NamedStyle{"lm_head", TensorStyle::colwise_gather_output},
};
constexpr std::array of_head_norms{
    NamedStyle{"self_attn.q_norm", TensorStyle::replicated_with_grad_allreduce},
    NamedStyle{"self_attn.k_norm", TensorStyle::replicated_with_grad_allreduce},
};

constexpr std::array<std::string_view, 11> decoders{
    "llama",   "mistral",  "ministral", "ministral3", "qwen2", "ernie4_5",
    "granite", "seed_oss", "smollm3",   "olmo",       "arcee"};
/// Norms of each head see the heads of their own rank.
constexpr std::array<std::string_view, 2> decoders_with_head_norms{"qwen3", "exaone4"};

bool is_one_of(std::string_view name, const auto& names) {
  return std::ranges::find(names, name) != names.end();
}

std::optional<TensorStyle> style_of(std::string_view module, bool head_norms) {
  const auto ends = [&](const NamedStyle& rule) {
    return module == rule.module || module.ends_with("." + std::string(rule.module));
  };
  if (const auto* rule = std::ranges::find_if(of_decoders, ends); rule != of_decoders.end())
    return rule->style;
  if (const auto* rule = std::ranges::find_if(of_head_norms, ends);
      head_norms && rule != of_head_norms.end())
    return rule->style;
  return std::nullopt;
}

bool has_parameter(const Model& model, const std::string& name) {
  return std::ranges::any_of(model.parameters,
                             [&](const Parameter& parameter) { return parameter.name == name; });
}

bool is_block(const Model& model, const Module& module) {
  return is_one_of(module.class_name, model.no_split_classes);
}

std::ptrdiff_t dots_of(const std::string& name) { return std::ranges::count(name, '.'); }

}  // namespace

std::vector<TensorRule> tensor_plan_of(const Model& model) {
  const bool head_norms = is_one_of(model.family, decoders_with_head_norms);
  if (!head_norms && !is_one_of(model.family, decoders))
    throw Error({.where = "--mesh",
                 .what = fmt::format("transformers' tensor parallelism of {} is not predicted",
                                     model.family.empty() ? "this model" : model.family),
                 .way_out = fmt::format("leave tensor out, or give a model of {}, {}",
                                        fmt::join(decoders, ", "),
                                        fmt::join(decoders_with_head_norms, ", "))});
  std::vector<TensorRule> plan;
  for (const Module& module : model.modules) {
    const auto style = style_of(module.name, head_norms);
    if (!style || !module.same_as.empty()) continue;
    if (*style == TensorStyle::rowwise && has_parameter(model, module.name + ".bias"))
      throw Error({.where = "--mesh",
                   .what = fmt::format("{} is divided along its input and has a bias, whose "
                                       "gradient is not predicted",
                                       module.name),
                   .way_out = "leave tensor out"});
    plan.push_back({module.name, *style});
  }
  return plan;
}

std::vector<FullyShardedModules> fsdp_plan_of(const Model& model) {
  std::vector<std::string> blocks;
  std::vector<std::string> kept;
  std::vector<std::string> freed;
  const bool tied = !model.tied.empty();
  for (const Module& module : model.modules) {
    const auto ends = [&](std::string_view end) {
      return module.name == end || module.name.ends_with("." + std::string(end));
    };
    if (is_block(model, module))
      freed.push_back(module.name);
    else if (ends("embed_tokens"))
      (tied ? kept : freed).push_back(module.name);
    else if (module.name == "norm" || module.name == "model.norm" ||
             (module.name == "lm_head" && !tied))
      kept.push_back(module.name);
  }
  const auto deepest_first = [](const std::string& a, const std::string& b) {
    return dots_of(a) > dots_of(b);
  };
  std::ranges::stable_sort(freed, deepest_first);
  std::ranges::stable_sort(kept, deepest_first);
  // _resolve_tied_embed_lm_head_plan lists the tied embedding behind the others.
  std::ranges::stable_partition(
      kept, [](const std::string& name) { return !name.ends_with("embed_tokens"); });
  std::vector<FullyShardedModules> calls;
  for (std::string& module : freed) calls.push_back({{std::move(module)}, true});
  // The last norm and the head are one group: is_norm_and_head_pair.
  if (kept.size() == 2)
    calls.push_back({std::move(kept), false});
  else
    for (std::string& module : kept) calls.push_back({{std::move(module)}, false});
  calls.push_back({{""}, std::nullopt});
  return calls;
}

}  // namespace shardscope
