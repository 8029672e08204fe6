#include "tests/recordings/recorded_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/model/family.h"
#include "tests/recordings/recorded_file.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using Index = std::map<std::string, std::int32_t>;

/// "a.b" and "weight" to "a.b.weight".
std::string joined(const std::string& module, const std::string& name) {
  return module.empty() ? name : module + "." + name;
}

std::int32_t parent_of(const std::string& name, const Index& modules) {
  if (name.empty()) return -1;
  const std::size_t dot = name.rfind('.');
  return modules.at(dot == std::string::npos ? std::string() : name.substr(0, dot));
}

std::int32_t add_parameter(const std::string& module, const Json& row, Index& parameters,
                           ModuleTree& tree) {
  const auto id = static_cast<std::int32_t>(tree.parameters.size());
  TreeParameter parameter{.name = joined(module, row.at("name").get<std::string>()),
                          .shape = row.at("shape").get<Shape>(),
                          .dtype = recorded_dtype(row.value("dtype", "fp32")),
                          .trainable = !row.value("frozen", false)};
  if (row.contains("same_as")) parameter.same_as = parameters.at(row.at("same_as"));
  parameters.emplace(parameter.name, id);
  tree.parameters.push_back(std::move(parameter));
  return id;
}

const ModelFamily& family_of(const std::string& class_name) {
  for (const ModelFamily& family : model_families())
    if (std::find(family.classes.begin(), family.classes.end(), class_name) != family.classes.end())
      return family;
  throw Error({.where = class_name, .what = "is of no known family", .way_out = {}});
}

}  // namespace

Json recorded_config(const Json& spec) {
  Json config = spec.at("config");
  config["model_type"] = family_of(spec.at("hf").get<std::string>()).model_type;
  return config;
}

Json recorded_model(const std::filesystem::path& folder, const std::string& name) {
  const Json models = recorded_json(folder, "models");
  if (!models.contains(name))
    throw Error({.where = (folder / "models.json").string(),
                 .what = fmt::format("has no model \"{}\"", name),
                 .way_out = {}});
  return models.at(name);
}

ModuleTree recorded_tree(const Json& model) {
  ModuleTree tree;
  Index modules, parameters;
  for (const Json& row : model.at("modules")) {
    const auto id = static_cast<std::int32_t>(tree.modules.size());
    TreeModule module{.name = row.at("name").get<std::string>(),
                      .class_name = row.at("class").get<std::string>()};
    module.bases = model.at("bases").value(module.class_name, std::vector<std::string>());
    module.parent = parent_of(module.name, modules);
    if (module.parent >= 0)
      tree.modules[static_cast<std::size_t>(module.parent)].children.push_back(id);
    if (row.contains("same_as")) module.same_as = modules.at(row.at("same_as"));
    for (const Json& parameter : row.value("params", Json::array()))
      module.parameters.push_back(add_parameter(module.name, parameter, parameters, tree));
    modules.emplace(module.name, id);
    tree.modules.push_back(std::move(module));
  }
  return tree;
}

Dtype recorded_dtype(const std::string& name) {
  static const std::map<std::string, Dtype> short_names{{"fp64", Dtype::float64},
                                                        {"fp32", Dtype::float32},
                                                        {"fp16", Dtype::float16},
                                                        {"bf16", Dtype::bfloat16}};
  const auto found = short_names.find(name);
  return found != short_names.end() ? found->second : parse_dtype(name, "dtype");
}

}  // namespace shardscope::recordings
