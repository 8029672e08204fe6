#include "core/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"

namespace shardscope {
namespace {

/// The module that a parameter or buffer belongs to: "a.b" of "a.b.weight".
std::string_view owner_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
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

std::vector<std::string> Model::state_dict_keys() const {
  std::unordered_map<std::string_view, std::vector<std::string_view>> by_owner;
  for (const Parameter& parameter : parameters)
    by_owner[owner_of(parameter.name)].push_back(parameter.name);
  for (const TiedName& name : tied) by_owner[owner_of(name.later)].push_back(name.later);
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

}  // namespace shardscope
