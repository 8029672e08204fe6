#include "core/model/lora_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "core/model/bounded_pattern.h"

namespace shardscope {
namespace {

constexpr std::string_view way_out =
    "give a regular expression on module names, for example \"q_proj|v_proj\"";

bool matches(const std::optional<std::regex>& pattern, std::string_view name) {
  return pattern && std::regex_match(name.begin(), name.end(), *pattern);
}

bool names_end(const std::vector<std::string>& names, std::string_view module) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return module == name || module.ends_with("." + name);
  });
}

std::optional<std::regex> pattern_of(const ModuleNames& names, const char* where) {
  if (names.pattern.empty()) return std::nullopt;
  return bounded_pattern(names.pattern, where, way_out);
}

/// The number between two dots that follows `list`, or the first one where that is empty.
std::optional<std::int64_t> layer_of(std::string_view name, std::string_view list) {
  std::string_view before;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, dot - at);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool is_number = error == std::errc{} && end == part.data() + part.size();
    // Something stands before and after the number.
    if (is_number && dot < name.size() && !before.empty() && (list.empty() || before == list))
      return number;
    before = part;
    at = dot + 1;
  }
  return std::nullopt;
}

}  // namespace

LoraTargets::LoraTargets(const LoraConfig& config)
    : config_(config),
      targets_(pattern_of(config.targets, "target_modules")),
      excluded_(pattern_of(config.excluded, "exclude_modules")) {
  for (const std::string& name : config.modules_to_save)
    saved_.push_back(bounded_pattern("(^|.*\\.)" + name + "($|\\..*)", "modules_to_save", way_out));
  const auto at_the_end = [](const std::string& name, const char* where) {
    return bounded_pattern("(.*\\.)?(" + name + ")", where, way_out);
  };
  for (const auto& [name, rank] : config.rank_pattern)
    ranks_.emplace_back(at_the_end(name, "rank_pattern"), rank);
  for (const auto& [name, alpha] : config.alpha_pattern)
    alphas_.emplace_back(at_the_end(name, "alpha_pattern"), alpha);
}

bool LoraTargets::is_excluded(std::string_view name) const {
  if (matches(excluded_, name) || names_end(config_.excluded.names, name)) return true;
  return std::any_of(saved_.begin(), saved_.end(), [&](const std::regex& pattern) {
    return std::regex_match(name.begin(), name.end(), pattern);
  });
}

bool LoraTargets::is_in_layers(std::string_view name) const {
  if (config_.layers_to_transform.empty()) return true;
  std::optional<std::int64_t> layer;
  if (config_.layers_pattern.empty()) layer = layer_of(name, "");
  for (const std::string& list : config_.layers_pattern)
    if (!layer) layer = layer_of(name, list);
  const std::vector<std::int64_t>& wanted = config_.layers_to_transform;
  return layer && std::find(wanted.begin(), wanted.end(), *layer) != wanted.end();
}

bool LoraTargets::has(const Candidate& module) const {
  if (module.name.empty() || is_excluded(module.name)) return false;
  if (config_.all_linear)
    return module.is_linear && !module.is_output_embedding && is_in_layers(module.name);
  if (targets_) return matches(targets_, module.name);
  const std::vector<std::string>& names = config_.targets.names;
  // A whole name is targeted in whatever layer.
  if (std::find(names.begin(), names.end(), module.name) != names.end()) return true;
  return names_end(names, module.name) && is_in_layers(module.name);
}

namespace {

/// The value of the first pattern that matches.
template <class T>
T matched(const std::vector<std::pair<std::regex, T>>& patterns, std::string_view name, T other) {
  for (const auto& [pattern, value] : patterns)
    if (std::regex_match(name.begin(), name.end(), pattern)) return value;
  return other;
}

}  // namespace

std::int64_t LoraTargets::rank_of(std::string_view module_name) const {
  return matched(ranks_, module_name, config_.rank);
}

double LoraTargets::scaling_of(std::string_view module_name) const {
  const auto rank = static_cast<double>(rank_of(module_name));
  const double alpha = matched(alphas_, module_name, config_.alpha);
  return alpha / (config_.rank_stabilized ? std::sqrt(rank) : rank);
}

bool is_saved_whole(const LoraConfig& config, std::string_view module_name) {
  return std::any_of(config.modules_to_save.begin(), config.modules_to_save.end(),
                     [&](const std::string& name) { return module_name.ends_with(name); });
}

namespace {

struct UsualTargets {
  std::string_view model_type;
  std::vector<std::string> names;
};

std::vector<std::string> targets_of(std::span<const UsualTargets> rows,
                                    std::string_view model_type) {
  for (const UsualTargets& row : rows)
    if (row.model_type == model_type) return row.names;
  return {};
}

}  // namespace

std::vector<std::string> usual_lora_targets(std::string_view model_type) {
  static const std::vector<UsualTargets> rows{{"bert", {"query", "value"}},
                                              {"bloom", {"query_key_value"}},
                                              {"gemma", {"q_proj", "v_proj"}},
                                              {"gemma2", {"q_proj", "v_proj"}},
                                              {"gemma3_text", {"q_proj", "v_proj"}},
                                              {"gpt2", {"c_attn"}},
                                              {"gpt_neox", {"query_key_value"}},
                                              {"gptj", {"q_proj", "v_proj"}},
                                              {"llama", {"q_proj", "v_proj"}},
                                              {"mistral", {"q_proj", "v_proj"}},
                                              {"mixtral", {"q_proj", "v_proj"}},
                                              {"opt", {"q_proj", "v_proj"}},
                                              {"phi", {"q_proj", "v_proj", "fc1", "fc2"}},
                                              {"qwen2", {"q_proj", "v_proj"}},
                                              {"qwen3", {"q_proj", "v_proj"}},
                                              {"roberta", {"query", "value"}},
                                              {"stablelm", {"q_proj", "v_proj"}},
                                              {"t5", {"q", "v"}}};
  return targets_of(rows, model_type);
}

std::vector<std::string> usual_adalora_targets(std::string_view model_type) {
  static const std::vector<UsualTargets> rows{
      {"bert", {"query", "value"}},
      {"bloom", {"query_key_value"}},
      {"gemma", {"q_proj", "v_proj"}},
      {"gemma2", {"q_proj", "v_proj"}},
      {"gemma3_text", {"q_proj", "v_proj"}},
      {"gpt2", {"c_attn"}},
      {"gpt_neox", {"query_key_value"}},
      {"gptj", {"q_proj", "v_proj"}},
      {"llama", {"q_proj", "v_proj"}},
      {"opt", {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"}},
      {"qwen2", {"q_proj", "v_proj"}},
      {"qwen3", {"q_proj", "v_proj"}},
      {"roberta", {"query", "key", "value", "dense"}},
      {"t5", {"q", "k", "v", "o", "wi", "wo"}}};
  return targets_of(rows, model_type);
}

}  // namespace shardscope
