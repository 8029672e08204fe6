#include "tests/recordings/fsdp1_case.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>

#include "core/config/accelerate/fsdp_plugin_arguments.h"
#include "core/config/values/config_json.h"
#include "core/model/family.h"
#include "core/model/huggingface.h"
#include "tests/recordings/recorded_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

Strings strings(const Json& object, const char* key) { return object.value(key, Strings()); }

bool matches_any(const std::string& name, const Strings& expressions) {
  return std::any_of(expressions.begin(), expressions.end(), [&](const std::string& expression) {
    return std::regex_match(name, std::regex(expression));
  });
}

Strings modules_matching(const ModuleTree& tree, const Strings& expressions) {
  Strings names;
  for (const TreeModule& module : tree.modules)
    if (matches_any(module.name, expressions)) names.push_back(module.name);
  return names;
}

/// Names that a walk without duplicates gives, as the recorder makes its list.
Strings parameters_matching(const ModuleTree& tree, const Strings& expressions) {
  Strings names;
  for (const TreeParameter& parameter : tree.parameters)
    if (!parameter.same_as && matches_any(parameter.name, expressions))
      names.push_back(parameter.name);
  return names;
}

CustomUnit custom_unit(const std::string& module, const Json& answer) {
  CustomUnit unit{.module = module};
  if (!answer.is_object()) return unit;
  if (answer.contains("sharding_strategy"))
    unit.strategy = torch_strategy(answer.at("sharding_strategy"));
  if (answer.contains("use_orig_params"))
    unit.use_original_parameters = answer.at("use_orig_params").get<bool>();
  unit.without_mixed_precision =
      answer.contains("mixed_precision") && answer.at("mixed_precision").is_null();
  return unit;
}

/// All names of every module, so that a rule may match any of them.
std::map<std::int32_t, Strings> names_by_module(const ModuleTree& tree) {
  std::map<std::int32_t, Strings> names;
  for (std::size_t i = 0; i < tree.modules.size(); ++i) {
    auto first = static_cast<std::int32_t>(i);
    while (tree.modules[static_cast<std::size_t>(first)].same_as)
      first = *tree.modules[static_cast<std::size_t>(first)].same_as;
    names[first].push_back(tree.modules[i].name);
  }
  return names;
}

/// The first rule that matches answers; false and {} mean that the module is not wrapped.
CustomWrap custom_wrap(const ModuleTree& tree, const Json& rules) {
  CustomWrap wrap;
  for (const auto& [module, names] : names_by_module(tree))
    for (const Json& rule : rules) {
      const bool found = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return matches_any(name, {rule.at(0).get<std::string>()});
      });
      if (!found) continue;
      const Json& answer = rule.at(1);
      if (answer != false && answer != Json::object())
        wrap.units.push_back(custom_unit(names.front(), answer));
      break;
    }
  return wrap;
}

/// _no_split_modules of the class that the spec names.
Strings no_split_classes(const Json& spec) {
  if (!spec.contains("hf")) return {};
  const std::string class_name = spec.at("hf").get<std::string>();
  Json config = spec.at("config");
  for (const ModelFamily& family : model_families())
    if (std::find(family.classes.begin(), family.classes.end(), class_name) != family.classes.end())
      config["model_type"] = std::string(family.model_type);
  return model_of_config(JsonValue::parse(config.dump(), "spec"), {.class_name = class_name})
      .no_split_classes;
}

AutoWrap accelerate_wrap(const Json& arguments, const Json& model, const ModuleTree& tree) {
  accelerate::FsdpPlugin plugin =
      accelerate::make_fsdp_plugin(read_json(arguments.dump(), "plugin"), {});
  const bool asks_model = plugin.wrap == WrapPolicy::transformer && !plugin.wrap_classes;
  accelerate::set_auto_wrap_policy(plugin, tree,
                                   asks_model ? no_split_classes(model.at("spec")) : Strings());
  return accelerate::auto_wrap_of(plugin);
}

SizeWrap size_wrap(const Json& policy) {
  SizeWrap wrap;
  wrap.min_elements = policy.value("min_num_params", wrap.min_elements);
  wrap.force_leaf = policy.value("force_leaf_modules", wrap.force_leaf);
  wrap.exclude = policy.value("exclude_wrap_modules", wrap.exclude);
  return wrap;
}

AutoWrap auto_wrap(const Json& policy, const Json& model, const ModuleTree& tree) {
  const std::string kind = policy.at("kind").get<std::string>();
  if (kind == "transformer") return TransformerWrap{strings(policy, "classes")};
  if (kind == "module") return ClassWrap{strings(policy, "classes")};
  if (kind == "size") return size_wrap(policy);
  if (kind == "lambda") return NameWrap{modules_matching(tree, strings(policy, "modules"))};
  if (kind == "custom") return custom_wrap(tree, policy.at("rules"));
  if (kind == "accelerate") return accelerate_wrap(policy.at("plugin"), model, tree);
  if (kind == "always") return AlwaysWrap{};
  if (kind == "hand" && policy.contains("then")) return auto_wrap(policy.at("then"), model, tree);
  return NoWrap{};
}

}  // namespace

std::vector<Json> fsdp1_variants(const Json& given) {
  std::vector<Json> variants{Json::object()};
  for (const char* key : {"world", "use_orig_params", "param_dtype", "strategy"}) {
    if (!given.contains(key)) continue;
    const Json& value = given.at(key);
    std::vector<Json> longer;
    for (const Json& variant : variants)
      for (const Json& choice : value.is_array() ? value : Json::array({value})) {
        longer.push_back(variant);
        longer.back()[key] = choice;
      }
    variants = std::move(longer);
  }
  return variants;
}

Fsdp1Settings fsdp1_settings(const Json& given, const Json& variant, const Json& model,
                             const ModuleTree& tree) {
  const Json& policy = given.at("policy");
  Fsdp1Settings settings{.world = variant.at("world").get<int>(),
                         .strategy = torch_strategy(variant.value("strategy", "FULL_SHARD")),
                         .use_original_parameters = variant.value("use_orig_params", false)};
  if (const std::string dtype = variant.value("param_dtype", "none"); dtype != "none") {
    settings.mixed_precision = {.parameters = recorded_dtype(dtype), .reduction = {}};
    if (given.contains("reduce_dtype"))
      settings.mixed_precision->reduction = recorded_dtype(given.at("reduce_dtype"));
  }
  if (given.contains("mesh"))
    settings.mesh = Mesh{.replicate = given.at("mesh").at(0).get<int>(),
                         .shard = given.at("mesh").at(1).get<int>()};
  if (policy.at("kind") == "hand") settings.wrapped_by_hand = strings(policy, "modules");
  settings.auto_wrap = auto_wrap(policy, model, tree);
  settings.ignored_modules = strings(given, "ignored_modules");
  settings.ignored_parameters = parameters_matching(tree, strings(given, "ignored_params"));
  return settings;
}

ShardingStrategy torch_strategy(const std::string& name) {
  std::string lower(name.substr(std::min(name.find_first_not_of('_'), name.size())));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return parse_sharding_strategy(lower, "strategy");
}

std::string torch_name(ShardingStrategy strategy) {
  std::string name(name_of(strategy));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return strategy == ShardingStrategy::hybrid_shard_zero2 ? "_" + name : name;
}

}  // namespace shardscope::recordings
