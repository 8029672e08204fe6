#include "core/pytorch/engine/models/context.h"

#include <algorithm>
#include <charconv>

namespace shardscope::eager {

/// All families name them alike: resid_pdrop, attention_dropout, hidden_dropout_prob.
bool ModelConfig::is_switched_off(std::string_view key) const {
  return !dropout_ && key.find("drop") != std::string_view::npos;
}

double ModelConfig::number(std::string_view key) const {
  return is_switched_off(key) ? 0 : json_.at(key).number();
}

bool ModelConfig::flag(std::string_view key) const {
  const auto value = json_.find(key);
  return value && value->boolean();
}

std::optional<std::int64_t> ModelConfig::find_integer(std::string_view key) const {
  const auto value = json_.find(key);
  return value ? std::optional(value->integer()) : std::nullopt;
}

std::optional<double> ModelConfig::find_number(std::string_view key) const {
  if (is_switched_off(key)) return 0;
  const auto value = json_.find(key);
  return value ? std::optional(value->number()) : std::nullopt;
}

std::string ModelConfig::layer_type(std::size_t layer) const {
  const auto types = json_.find("layer_types");
  return types && layer < types->size() ? (*types)[layer].string() : std::string();
}

std::size_t layer_number(std::string_view module_name) {
  for (std::size_t at = 0; at < module_name.size();) {
    const std::size_t dot = std::min(module_name.find('.', at), module_name.size());
    std::size_t number = 0;
    const char* end = module_name.data() + dot;
    if (std::from_chars(module_name.data() + at, end, number).ptr == end && dot > at) return number;
    at = dot + 1;
  }
  return 0;
}

bool has_child(const Module& module, std::string_view own_name) {
  return std::any_of(module.children.begin(), module.children.end(),
                     [&](const Module::Child& child) { return child.name == own_name; });
}

std::string_view own_name(std::string_view module_name) {
  const std::size_t dot = module_name.rfind('.');
  return dot == std::string_view::npos ? module_name : module_name.substr(dot + 1);
}

}  // namespace shardscope::eager
