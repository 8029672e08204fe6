#include "core/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/base/error.h"
#include "core/model/module_names.h"

namespace shardscope {
namespace {

using NamesOfModule = std::vector<ParameterName>;

/// torch's layers register the weight before the bias, whichever of the two is tied.
void order_as_registered(NamesOfModule& names) {
  if (std::all_of(names.begin(), names.end(), [](const ParameterName& n) { return n.is_first; }))
    return;
  std::stable_partition(names.begin(), names.end(),
                        [](const ParameterName& n) { return !n.name.ends_with(".bias"); });
}

}  // namespace

std::int64_t elements_of(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t dimension : shape) product *= dimension;
  return product;
}

TransformersVersion parse_transformers_version(std::string_view text, std::string_view where) {
  if (text == "4") return TransformersVersion::v4;
  if (text == "5") return TransformersVersion::v5;
  throw Error({.where = std::string(where),
               .what = fmt::format("unknown transformers version \"{}\"", text.substr(0, 40)),
               .way_out = "known are 4 and 5"});
}

Model with_dtype(Model model, Dtype dtype) {
  model.dtype = dtype;
  for (Parameter& parameter : model.parameters) parameter.dtype = dtype;
  return model;
}

std::int64_t Model::parameter_elements() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.elements();
  return sum;
}

std::int64_t Model::trainable_elements() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters)
    sum += parameter.trainable ? parameter.elements() : 0;
  return sum;
}

ParameterId Model::find(std::string_view name) const {
  const auto alias =
      std::find_if(tied.begin(), tied.end(), [&](const TiedName& t) { return t.later == name; });
  const std::string_view first = alias == tied.end() ? name : alias->first;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == first) return ParameterId::of(i);
  return {};
}

std::vector<ParameterName> Model::parameter_names() const {
  std::unordered_map<std::string_view, ParameterName> known;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    known[parameters[i].name] = {.name = parameters[i].name, .parameter = ParameterId::of(i)};
  for (const TiedName& name : tied)
    known[name.later] = {
        .name = name.later, .parameter = known.at(name.first).parameter, .is_first = false};
  std::vector<ParameterName> result;
  for (const std::string& name : registered_names) result.push_back(known.at(name));
  if (!result.empty()) return result;

  std::unordered_map<std::string_view, NamesOfModule> by_owner;
  for (const Parameter& parameter : parameters)
    by_owner[owner_of(parameter.name)].push_back(known.at(parameter.name));
  for (const TiedName& name : tied) by_owner[owner_of(name.later)].push_back(known.at(name.later));
  for (const Module& module : modules) {
    NamesOfModule& names = by_owner[module.name];
    order_as_registered(names);
    result.insert(result.end(), names.begin(), names.end());
  }
  return result;
}

std::vector<std::string> Model::state_dict_keys() const {
  std::unordered_map<std::string_view, std::vector<std::string_view>> by_owner;
  for (const ParameterName& name : parameter_names())
    by_owner[owner_of(name.name)].push_back(name.name);
  for (const ModelBuffer& buffer : buffers)
    if (buffer.persistent) by_owner[owner_of(buffer.name)].push_back(buffer.name);
  std::vector<std::string> keys;
  for (const Module& module : modules) {
    std::vector<std::string_view>& names = by_owner[module.name];
    // A tied weight was collected after the module's own bias, but is registered before it.
    std::stable_partition(names.begin(), names.end(),
                          [](std::string_view name) { return !name.ends_with(".bias"); });
    for (const std::string_view key : names) keys.emplace_back(key);
  }
  return keys;
}

void check_size(const Model& model, std::string_view where) {
  constexpr double most_elements = 9e15;
  double elements = 0;
  for (const Parameter& parameter : model.parameters)
    elements += static_cast<double>(parameter.elements());
  if (elements > most_elements)
    throw Error({.where = std::string(where),
                 .what = fmt::format("the model would have {:.3g} parameters", elements),
                 .way_out = {}});
}

std::int64_t ModelTrace::operators() const {
  std::int64_t sum = 0;
  for (const OfModule& module : by_module) sum += module.operators;
  return sum;
}

Bytes ModelTrace::saved() const {
  Bytes sum;
  for (const OfModule& module : by_module) sum += module.saved;
  return sum;
}

}  // namespace shardscope
