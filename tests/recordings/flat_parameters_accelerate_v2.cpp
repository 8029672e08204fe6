// accelerate_v2.json: the groups that accelerate makes under fsdp_version 2.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/format/json_reader.h"
#include "core/model/family.h"
#include "core/model/huggingface.h"
#include "core/sharding/accelerate_fsdp2.h"
#include "tests/recordings/flat_parameters.h"
#include "tests/recordings/flat_parameters_fsdp2.h"
#include "tests/recordings/recorded_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

Refusal refused(const std::string& key, const Json& value) {
  return Refusal("ValueError", {.where = key, .what = value.dump() + " is refused", .way_out = {}});
}

const ModelFamily& family_of(const std::string& class_name) {
  for (const ModelFamily& family : model_families())
    if (std::find(family.classes.begin(), family.classes.end(), class_name) != family.classes.end())
      return family;
  throw Error({.where = class_name, .what = "is of no known family", .way_out = {}});
}

/// Of a transformers model: what the product knows of its class. Else nothing, as of plain modules.
TransformersFacts facts_of(const Json& spec, const ModuleTree& tree) {
  if (!spec.contains("hf")) return {};
  const std::string class_name = spec.at("hf").get<std::string>();
  Json config = spec.at("config");
  config["model_type"] = family_of(class_name).model_type;
  return transformers_facts(
      model_of_config(JsonValue::parse(config.dump(), "spec"), {.class_name = class_name}), tree);
}

WrapPolicy wrap_of(const Json& plugin) {
  static const std::map<std::string, WrapPolicy> words{
      {"no_wrap", WrapPolicy::none},
      {"transformer_based_wrap", WrapPolicy::transformer},
      {"size_based_wrap", WrapPolicy::size}};
  std::string word = plugin.value("auto_wrap_policy", "no_wrap");
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = words.find(word);
  if (found == words.end()) throw refused("auto_wrap_policy", plugin.at("auto_wrap_policy"));
  return found->second;
}

bool reshards(const Json& plugin) {
  if (!plugin.contains("reshard_after_forward")) {
    if (plugin.contains("sharding_strategy"))
      throw refused("sharding_strategy", plugin.at("sharding_strategy"));
    return true;
  }
  const Json& value = plugin.at("reshard_after_forward");
  if (value == "true" || value == "false") return value == "true";
  if (!value.is_boolean()) throw refused("reshard_after_forward", value);
  return value.get<bool>();
}

std::optional<std::vector<std::string>> classes_of(const Json& plugin) {
  const Json names = plugin.value("transformer_cls_names_to_wrap", Json());
  if (names.is_null()) return std::nullopt;
  if (names.is_array()) return names.get<std::vector<std::string>>();
  std::vector<std::string> split;
  std::string text = names.get<std::string>() + ",";
  for (std::size_t from = 0, comma = 0; (comma = text.find(',', from)) != std::string::npos;
       from = comma + 1)
    split.push_back(text.substr(from, comma - from));
  return split;
}

std::set<std::int32_t> ignored_of(const Json& plugin, const ModuleTree& tree) {
  std::set<std::int32_t> ignored;
  if (!plugin.contains("ignored_modules")) return ignored;
  const std::regex pattern(plugin.at("ignored_modules").get<std::string>());
  for (std::size_t root = 0; root < tree.modules.size(); ++root) {
    if (!std::regex_match(tree.modules[root].name, pattern)) continue;
    for (std::size_t id = root; id < tree.modules.size(); ++id) {
      if (id > root && tree.modules[id].parent < static_cast<std::int32_t>(root)) break;
      for (const std::int32_t slot : tree.modules[id].parameters)
        ignored.insert(tree.parameters[static_cast<std::size_t>(slot)].same_as.value_or(slot));
    }
  }
  return ignored;
}

std::optional<Dtype> precision_of(const std::string& word) {
  if (word == "no") return std::nullopt;
  return word == "fp8" ? Dtype::bfloat16 : recorded_dtype(word);
}

RecordedPlan planned(const Json& given, const Json& model, int world) {
  const ModuleTree tree = recorded_tree(model);
  const Json& plugin = given.at("plugin");
  AccelerateFsdp2 settings{.wrap = wrap_of(plugin),
                           .wrap_classes = classes_of(plugin),
                           .min_parameters = plugin.value("min_num_params", std::int64_t{0}),
                           .reshard_after_forward = reshards(plugin),
                           .ignored_parameters = ignored_of(plugin, tree),
                           .mixed_precision = precision_of(given.value("mixed_precision", "no")),
                           .mesh = recorded_mesh(given, world)};
  settings.mesh.given = given.contains("mesh");
  AccelerateFsdp2Plan plan =
      accelerate_fsdp2(tree, facts_of(model.at("spec"), tree), settings, recorded_moment(given));
  return {.tree = std::move(plan.tree), .plan = std::move(plan.fsdp2)};
}

Outcome check(const Json& recorded, const std::filesystem::path& folder, const Options& options) {
  const Json& given = recorded.at("case");
  const Json model = recorded_model(folder, given.at("model").get<std::string>());
  return check_fsdp2_plans(
      recorded, [&](int world) { return planned(given, model, world); }, options);
}

}  // namespace

FlatParametersFile accelerate_v2_recordings() {
  return {.name = "accelerate_v2",
          .fields = {"groups", "variants", "units", "ranks", "traffic", "error", "run_error"},
          .check = check};
}

}  // namespace shardscope::recordings
