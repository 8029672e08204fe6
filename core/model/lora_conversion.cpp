#include "core/model/lora_conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/base/error.h"

namespace shardscope {
namespace {

/// What a projection of one expert, or the router, is called now.
struct Renamed {
  std::string_view before, now;
};
constexpr std::string_view fused = "gate_up_proj", down = "down_proj", router = "gate.weight";
using Renames = std::array<Renamed, 4>;
constexpr Renames as_mixtral{{{"gate", router}, {"w1", fused}, {"w3", fused}, {"w2", down}}};
constexpr Renames as_qwen2_moe{
    {{"gate", router}, {"gate_proj", fused}, {"up_proj", fused}, {"down_proj", down}}};

struct Converted {
  std::string_view family;
  const Renames* renames;
};
constexpr Converted families[] = {{"afmoe", &as_qwen2_moe},    {"deepseek_v3", &as_qwen2_moe},
                                  {"dots1", &as_qwen2_moe},    {"glm4_moe", &as_qwen2_moe},
                                  {"minimax_m2", &as_mixtral}, {"mixtral", &as_mixtral},
                                  {"olmoe", &as_qwen2_moe},    {"qwen3_moe", &as_qwen2_moe}};

const Renames* renames_of(std::string_view family) {
  for (const Converted& row : families)
    if (row.family == family) return row.renames;
  return nullptr;
}

std::string last_part(std::string_view name) {
  return std::string(name.substr(name.rfind('.') + 1));
}

bool is_or_ends_with(std::string_view target, std::string_view name) {
  return target == name || target.ends_with(fmt::format(".{}", name));
}

/// _resolve_string_target_modules: a pattern, or all-linear, as last parts of names.
std::vector<std::string> last_parts(const LoraConfig& config, const AdaptedNames& model,
                                    const Renames& renames) {
  const LoraTargets targets(config);
  std::set<std::string> found;
  for (const LoraTargets::Candidate& module : model.modules)
    if (targets.has(module)) found.insert(last_part(module.name));
  if (config.all_linear) {
    if (!config.lists_linear)
      for (const Renamed& row : renames) found.emplace(row.before);
    return {found.begin(), found.end()};
  }
  for (const std::string& parameter : model.parameters)
    if (targets.has({.name = parameter})) found.insert(last_part(parameter));
  // An expert's own projection is asked for where the fused parameter stands.
  for (const Renamed& row : renames)
    for (const std::string& parameter : model.parameters) {
      if (last_part(parameter) != row.now) continue;
      const std::string place = parameter.substr(0, parameter.rfind('.') + 1);
      if (targets.has({.name = place + std::string(row.before)})) found.emplace(row.before);
    }
  return {found.begin(), found.end()};
}

void check_fused(const std::set<std::string_view>& named, const Renames& renames) {
  std::string_view missing, present;
  for (const Renamed& row : renames)
    if (row.now == fused) (named.contains(row.before) ? present : missing) = row.before;
  if (missing.empty() || present.empty()) return;
  throw Error({.where = "target_modules",
               .what = fmt::format("names {} without {}, and transformers 5 keeps both in one "
                                   "parameter, {}",
                                   present, missing, fused),
               .way_out = fmt::format("add {}, or leave {} out", missing, present)});
}

}  // namespace

bool converts_targets(std::string_view family) { return renames_of(family) != nullptr; }

LoraConfig converted_for_transformers_5(LoraConfig config, const AdaptedNames& model) {
  const Renames* renames = renames_of(model.family);
  if (renames == nullptr || config.adaptive_rank || !config.converts_targets) return config;
  if (config.usual_targets) config.targets = {};
  if (config.all_linear || !config.targets.pattern.empty()) {
    const std::vector<std::string> names = last_parts(config, model, *renames);
    // PEFT leaves a pattern that finds nothing to its usual complaint.
    if (names.empty()) return config;
    config.all_linear = false;
    config.targets = {.names = names};
  }
  std::set<std::string_view> named;
  std::set<std::string> parameters(config.target_parameters.begin(),
                                   config.target_parameters.end());
  std::vector<std::string> modules;
  for (const std::string& target : config.targets.names) {
    const auto row = std::ranges::find_if(
        *renames, [&](const Renamed& each) { return is_or_ends_with(target, each.before); });
    if (row == renames->end()) {
      modules.push_back(target);
      continue;
    }
    parameters.emplace(row->now);
    named.insert(row->before);
  }
  check_fused(named, *renames);
  config.targets.names = std::move(modules);
  config.target_parameters = {parameters.begin(), parameters.end()};
  if (!std::ranges::any_of(*renames, [&](const Renamed& row) {
        return row.now == fused && named.contains(row.before);
      }))
    return config;
  const std::string pattern = fmt::format(R"(.*\.{})", fused);
  config.rank_pattern.emplace_back(pattern, 2 * config.rank);
  config.alpha_pattern.emplace_back(pattern, 2 * config.alpha);
  return config;
}

}  // namespace shardscope
