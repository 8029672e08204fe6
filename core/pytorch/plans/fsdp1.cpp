#include "core/pytorch/plans/fsdp1.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "core/base/refusal.h"
#include "core/pytorch/plans/fsdp1_construction.h"

namespace shardscope {
namespace {

void check_mesh(const Mesh& mesh, int world, int rank) {
  if (mesh.pipeline != 1 || mesh.replicate < 1 || mesh.shard < 1)
    throw Error(
        {.where = "mesh",
         .what = fmt::format("FSDP takes the axes replicate and shard, not {}", text_of(mesh)),
         .way_out = "give replicate=R,shard=S"});
  const std::int64_t ranks = std::int64_t{mesh.replicate} * mesh.shard;
  const std::string size =
      fmt::format("{} replicas of {} shards are {} ranks", mesh.replicate, mesh.shard, ranks);
  if (ranks > world)
    throw Refusal("RuntimeError", {.where = "mesh",
                                   .what = fmt::format("{}, of {} in all", size, world),
                                   .way_out = "give axes that multiply to the world"});
  if (rank >= ranks)
    throw Refusal("IndexError", {.where = "mesh",
                                 .what = fmt::format("{}, and rank {} is none of them", size, rank),
                                 .way_out = "give axes that multiply to the world"});
}

void check(const Fsdp1Settings& settings, int rank) {
  if (settings.world < 1 || rank < 0 || rank >= settings.world)
    throw Error({.where = "rank",
                 .what = fmt::format("{} is no rank of a world of {}", rank, settings.world),
                 .way_out = {}});
  if (settings.strategy == ShardingStrategy::zero1)
    throw Error({.where = "strategy",
                 .what = "FSDP has no strategy that shards optimizer states alone",
                 .way_out = "take shard_grad_op, or DeepSpeed stage 1"});
  if (settings.mesh) check_mesh(*settings.mesh, settings.world, rank);
}

/// parametrize sets the original again, and a view of a flat parameter may not be changed so.
void refuse_adapted_parameters(const ModuleTree& tree) {
  for (const TreeModule& module : tree.modules)
    if (module.class_name == "lora.ParamWrapper")
      throw Refusal("RuntimeError",
                    {.where = module.name,
                     .what = "PEFT's adapter of a parameter, as experts have it, does not run "
                             "under FSDP1",
                     .way_out = "use FSDP2, or adapt linear layers alone "
                                "(targets=q_proj+k_proj+v_proj+o_proj)"});
}

/// Every name under which a unit knows a parameter.
std::set<std::string_view> names_in_units(const Fsdp1Plan& plan) {
  std::set<std::string_view> names;
  for (const Fsdp1Unit& unit : plan.units) {
    for (const Fsdp1Unit::Parameter& parameter : unit.parameters) names.insert(parameter.name);
    for (const Fsdp1Unit::Alias& alias : unit.aliases) names.insert(alias.name);
  }
  return names;
}

}  // namespace

bool Fsdp1Unit::same_composition(const Fsdp1Unit& other) const {
  return module == other.module && parameters == other.parameters && aliases == other.aliases;
}

Fsdp1Plan plan_fsdp1(const ModuleTree& tree, const Fsdp1Settings& settings, int rank) {
  check(settings, rank);
  refuse_adapted_parameters(tree);
  return Fsdp1Construction(tree, settings, rank).run();
}

std::optional<std::pair<int, int>> ranks_that_disagree(const ModuleTree& tree,
                                                       const Fsdp1Settings& settings,
                                                       std::span<const int> ranks) {
  if (ranks.empty()) return std::nullopt;
  const Fsdp1Plan first = plan_fsdp1(tree, settings, ranks.front());
  if (!first.may_differ_between_ranks) return std::nullopt;
  for (const int rank : ranks.subspan(1)) {
    const Fsdp1Plan plan = plan_fsdp1(tree, settings, rank);
    const bool same =
        std::equal(first.units.begin(), first.units.end(), plan.units.begin(), plan.units.end(),
                   [](const Fsdp1Unit& a, const Fsdp1Unit& b) { return a.same_composition(b); });
    if (!same) return std::pair(ranks.front(), rank);
  }
  return std::nullopt;
}

std::vector<SplitTie> split_ties(const ModuleTree& tree, const Fsdp1Plan& plan) {
  std::map<std::int32_t, std::string_view> flattened;  // by source
  std::vector<SplitTie> ties;
  for (const Fsdp1Unit& unit : plan.units)
    for (const Fsdp1Unit::Parameter& parameter : unit.parameters) {
      const auto [first, added] = flattened.try_emplace(parameter.source, parameter.name);
      if (!added) ties.push_back({.name = std::string(first->second), .other = parameter.name});
    }
  const std::set<std::string_view> names = names_in_units(plan);
  for (const TreeModule& module : tree.modules) {
    if (module.same_as) continue;
    for (const std::int32_t id : module.parameters) {
      const TreeParameter& parameter = tree.parameters[static_cast<std::size_t>(id)];
      const auto first = flattened.find(parameter.same_as.value_or(id));
      if (first != flattened.end() && !names.contains(parameter.name))
        ties.push_back({.name = std::string(first->second),
                        .other = parameter.name,
                        .flattened_twice = false});
    }
  }
  return ties;
}

}  // namespace shardscope
