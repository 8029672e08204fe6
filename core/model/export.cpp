#include "core/model/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "core/model/export_trace.h"
#include "core/model/module_names.h"
#include "core/model/modules.h"
#include "core/model/read_exported_step.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_parameters = std::int64_t{1} << 20;
constexpr std::size_t most_dimensions = 64;
constexpr std::size_t most_bases = 100;
constexpr std::int64_t largest_tensor = std::int64_t{1} << 53;

std::vector<std::string> texts(const JsonValue& array, std::size_t most) {
  if (array.size() > most)
    throw array.error(fmt::format("has {} entries, more than {}", array.size(), most));
  std::vector<std::string> result;
  for (const JsonValue& text : array.elements()) result.push_back(text.string());
  return result;
}

Shape read_shape(const JsonValue& value) {
  if (value.size() > most_dimensions)
    throw value.error(
        fmt::format("has {} dimensions, more than {}", value.size(), most_dimensions));
  Shape shape;
  std::int64_t elements = 1;
  for (const JsonValue& dimension : value.elements()) {
    shape.push_back(dimension.integer(0, largest_tensor));
    if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > largest_tensor)
      throw value.error("has more than 2^53 elements");
  }
  return shape;
}

std::string own_name(const JsonValue& row) {
  const JsonValue name = row.at("name");
  std::string text = name.string();
  if (const std::string complaint = complaint_about_name(text); !complaint.empty())
    throw name.error(complaint);
  if (text.find('.') != std::string::npos)
    throw name.error(fmt::format("the name \"{}\" has a dot", shown(text)));
  return text;
}

Dtype read_dtype(const JsonValue& row) {
  const JsonValue dtype = row.at("dtype");
  return parse_dtype(dtype.string(), dtype.where());
}

class Reader {
 public:
  explicit Reader(Model& model) : model_(model) {}

  void read_modules(const JsonValue& rows) {
    if (static_cast<std::int64_t>(rows.size()) > most_modules)
      throw rows.error(fmt::format("has {} modules, more than {}", rows.size(), most_modules));
    if (rows.size() == 0) throw rows.error("has no module");
    for (const JsonValue& row : rows.elements()) read_module(row);
  }

 private:
  struct Known {
    std::string first;  ///< name of the same object's first appearance
    std::size_t index;  ///< in Model::parameters or Model::modules
  };

  void read_module(const JsonValue& row) {
    row.only_keys({"name", "class", "bases", "same_as", "parameters", "buffers"});
    Module module{.name = row.at("name").string(), .class_name = row.at("class").string()};
    check_place(row, module.name);
    module.bases = texts(row.at("bases"), most_bases);
    if (const auto same_as = row.find("same_as")) module.same_as = earlier_module(*same_as, module);
    modules_.emplace(module.name, model_.modules.size());
    model_.modules.push_back(module);
    for (const JsonValue& parameter : row.at("parameters").elements())
      read_parameter(parameter, module.name);
    for (const JsonValue& buffer : row.at("buffers").elements()) read_buffer(buffer, module.name);
  }

  /// Parents before children, and one subtree after the other.
  void check_place(const JsonValue& row, const std::string& name) {
    const JsonValue at = row.at("name");
    if (model_.modules.empty()) {
      if (!name.empty()) throw at.error("the first module is not the root, whose name is \"\"");
      path_.push_back(name);
      return;
    }
    if (const std::string complaint = complaint_about_name(name); !complaint.empty())
      throw at.error(complaint);
    if (modules_.contains(name))
      throw at.error(fmt::format("module {} stands there twice", shown(name)));
    while (path_.size() > 1 && path_.back() != owner_of(name)) path_.pop_back();
    if (path_.back() != owner_of(name))
      throw at.error(fmt::format("module {} does not stand below its parent", shown(name)));
    path_.push_back(name);
  }

  std::string earlier_module(const JsonValue& same_as, const Module& module) const {
    std::string name = same_as.string();
    const auto found = modules_.find(name);
    if (found == modules_.end())
      throw same_as.error(fmt::format("no earlier module is named \"{}\"", shown(name)));
    const Module& first = model_.modules[found->second];
    if (!first.same_as.empty() || first.class_name != module.class_name)
      throw same_as.error(
          fmt::format("module {} is not the first of the same object and class", shown(name)));
    return name;
  }

  void read_parameter(const JsonValue& row, const std::string& module) {
    row.only_keys({"name", "shape", "dtype", "trainable", "same_as"});
    Parameter parameter{.name = joined(module, own_name(row)),
                        .shape = read_shape(row.at("shape")),
                        .dtype = read_dtype(row),
                        .trainable = row.at("trainable").boolean()};
    if (parameters_.contains(parameter.name))
      throw row.error(fmt::format("parameter {} stands there twice", shown(parameter.name)));
    if (static_cast<std::int64_t>(parameters_.size()) >= most_parameters)
      throw row.error(fmt::format("more than {} parameters", most_parameters));
    model_.registered_names.push_back(parameter.name);
    if (const auto same_as = row.find("same_as")) {
      const std::size_t first = earlier_parameter(*same_as, parameter);
      parameters_.emplace(parameter.name, first);
      model_.tied.push_back({.later = parameter.name, .first = model_.parameters[first].name});
      return;
    }
    parameters_.emplace(parameter.name, model_.parameters.size());
    model_.parameters.push_back(std::move(parameter));
  }

  std::size_t earlier_parameter(const JsonValue& same_as, const Parameter& parameter) const {
    const std::string name = same_as.string();
    const auto found = parameters_.find(name);
    if (found == parameters_.end())
      throw same_as.error(fmt::format("no earlier parameter is named \"{}\"", shown(name)));
    const Parameter& first = model_.parameters[found->second];
    if (first.name != name || first.shape != parameter.shape || first.dtype != parameter.dtype ||
        first.trainable != parameter.trainable)
      throw same_as.error(fmt::format(
          "parameter {} is not the first of the same object, shape, dtype and trainable",
          shown(name)));
    return found->second;
  }

  void read_buffer(const JsonValue& row, const std::string& module) {
    row.only_keys({"name", "shape", "dtype", "persistent"});
    model_.buffers.push_back({.name = joined(module, own_name(row)),
                              .shape = read_shape(row.at("shape")),
                              .dtype = read_dtype(row),
                              .persistent = row.at("persistent").boolean()});
  }

  Model& model_;
  std::vector<std::string> path_;  ///< from the root to the module before
  std::unordered_map<std::string, std::size_t> modules_;
  std::unordered_map<std::string, std::size_t> parameters_;  ///< every name
};

/// That of the first parameter that is no integer, as transformers' `dtype` of a model.
Dtype dtype_of(const Model& model) {
  constexpr Dtype floating[] = {Dtype::float64, Dtype::float32, Dtype::float16, Dtype::bfloat16};
  for (const Parameter& parameter : model.parameters)
    if (std::find(std::begin(floating), std::end(floating), parameter.dtype) != std::end(floating))
      return parameter.dtype;
  return Dtype::float32;
}

}  // namespace

Model model_of_export(const JsonValue& exported) {
  exported.only_keys({"schema", "made_by", "class", "model_type", "base_model_prefix",
                      "no_split_modules", "modules", "trace_error", "trace", "programs",
                      "program_error"});
  const JsonValue schema = exported.at("schema");
  if (schema.string() != model_export_schema)
    throw schema.error(fmt::format("unknown schema \"{}\"", shown(schema.string())),
                       fmt::format("known is {}", model_export_schema));
  Model model;
  model.class_name = exported.at("class").string();
  if (const auto type = exported.find("model_type")) model.family = type->string();
  model.base_model_prefix = exported.at("base_model_prefix").string();
  model.no_split_classes = texts(exported.at("no_split_modules"), most_bases);
  Reader(model).read_modules(exported.at("modules"));
  if (model.modules.front().class_name != model.class_name)
    throw exported.at("class").error(
        fmt::format("the root module is of class \"{}\"", shown(model.modules.front().class_name)));
  check_size(model, exported.where());
  model.dtype = dtype_of(model);
  if (const auto trace = exported.find("trace")) model.trace = read_trace(*trace, model);
  if (const auto programs = exported.find("programs"))
    model.step = std::make_shared<ExportedStep>(read_exported_step(*programs, model));
  model.why_no_decoder = "an export does not say what its modules compute";
  return model;
}

}  // namespace shardscope
