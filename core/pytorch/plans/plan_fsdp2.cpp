// FSDP2's parameter groups as a ShardingPlan.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/plans/fsdp2_shard.h"
#include "core/pytorch/plans/plan_states.h"
#include "core/pytorch/plans/runtime_plans.h"
#include "core/schedule/model_states.h"

namespace shardscope {
namespace {

/// A group's parameters on the shards of its mesh.
class GroupOnMesh {
 public:
  GroupOnMesh(const ModuleTree& tree, const Fsdp2Group& group) : tree_(tree), group_(group) {}

  int shards() const { return group_.mesh.shards; }
  int shard_of(int rank) const { return rank % shards(); }

  std::int64_t elements(const Fsdp2Parameter& parameter) const { return of(parameter).elements(); }
  std::int64_t stored(const Fsdp2Parameter& parameter) const {
    return padded_shard_elements(of(parameter).shape, parameter.shard_dim, shards());
  }
  Fsdp2Shard shard(const Fsdp2Parameter& parameter, int index) const {
    return fsdp2_shard(of(parameter).shape, parameter.shard_dim, shards(), index);
  }
  const TreeParameter& of(const Fsdp2Parameter& parameter) const {
    return tree_.parameters[static_cast<std::size_t>(parameter.parameter)];
  }

  /// Elements of shard `index` that belong to parameters.
  std::int64_t real(int index) const {
    std::int64_t sum = 0;
    for (const Fsdp2Parameter& parameter : group_.parameters)
      sum += shard(parameter, index).elements;
    return sum;
  }

 private:
  const ModuleTree& tree_;
  const Fsdp2Group& group_;
};

ShardedParameter sharded(const GroupOnMesh& mesh, const Fsdp2Parameter& parameter, int rank) {
  const TreeParameter& held = mesh.of(parameter);
  const auto dim = static_cast<std::size_t>(
      parameter.shard_dim < 0 ? parameter.shard_dim + static_cast<int>(held.shape.size())
                              : parameter.shard_dim);
  ShardedParameter result{.name = held.name,
                          .shard_shape = held.shape,
                          .padded_shard_elements = mesh.stored(parameter)};
  result.shard_shape[dim] = mesh.shard(parameter, mesh.shard_of(rank)).dim_size;
  return result;
}

/// "model.norm, lm_head": the modules of one call.
std::string names_of(const ModuleTree& tree, const Fsdp2Group& group,
                     std::string TreeModule::*field) {
  std::string names;
  for (const std::int32_t module : group.modules)
    names += (names.empty() ? "" : ", ") + tree.modules[static_cast<std::size_t>(module)].*field;
  return names;
}

/// What each shard stores beyond its part of the parameters. Behind an empty shard all are empty,
/// so that a million ranks cost as much as the longest parameter has rows.
std::vector<std::int64_t> padding_by_shard(const GroupOnMesh& mesh, std::int64_t stored) {
  std::vector<std::int64_t> padding;
  std::int64_t real = 1;
  for (int shard = 0; shard < mesh.shards() && real > 0; ++shard) {
    real = mesh.real(shard);
    padding.push_back(stored - real);
  }
  padding.resize(static_cast<std::size_t>(mesh.shards()), stored);
  return padding;
}

PlannedUnit planned(const ModuleTree& tree, const Fsdp2Group& group, const PlanQuestion& question) {
  const GroupOnMesh mesh(tree, group);
  PlannedUnit unit{.name = names_of(tree, group, &TreeModule::name),
                   .class_name = names_of(tree, group, &TreeModule::class_name)};
  for (const Fsdp2Parameter& parameter : group.parameters) {
    unit.parameters.push_back(mesh.of(parameter).name);
    unit.elements += mesh.elements(parameter);
    unit.shard_elements += mesh.stored(parameter);
    unit.parameters_sharded.push_back(sharded(mesh, parameter, question.rank));
  }
  unit.unpadded_elements = unit.elements;
  unit.padded_elements = unit.shard_elements * mesh.shards();
  const std::vector<std::int64_t> by_shard = padding_by_shard(mesh, unit.shard_elements);
  for (int rank = 0; rank < question.world; ++rank)
    unit.padding_elements_by_rank.push_back(
        by_shard[static_cast<std::size_t>(mesh.shard_of(rank))]);
  return unit;
}

struct GroupStates {
  ModelStates held;
  ModelStates padding;
};

GroupStates group_states(const ModuleTree& tree, const Fsdp2Group& group,
                         const PlanQuestion& question) {
  const GroupOnMesh mesh(tree, group);
  GroupStates sum;
  for (const Fsdp2Parameter& parameter : group.parameters) {
    const TreeParameter& held = mesh.of(parameter);
    const std::int64_t stored = mesh.stored(parameter);
    const std::int64_t real = mesh.shard(parameter, mesh.shard_of(question.rank)).elements;
    const bool trains = held.trainable;
    const Dtype dtype = held_dtype(held, question.float32_parameters);
    const auto states = [&](const StateElements& elements) {
      return states_in(dtype, elements, question.optimizer);
    };
    sum.held = sum.held + states({stored, trains ? stored : 0, trains ? real : 0});
    sum.padding = sum.padding + states({stored - real, trains ? stored - real : 0, 0});
  }
  return sum;
}

void refuse_first_forward(const Fsdp2Plan& fsdp2) {
  if (!fsdp2.refused_at_first_forward) return;
  Error::Parts parts = fsdp2.refused_at_first_forward->parts();
  parts.what = "FSDP2 raises " + fsdp2.refused_at_first_forward->exception() +
               " at the first forward: " + parts.what;
  parts.code = ExitCode::no;
  throw Refusal(fsdp2.refused_at_first_forward->exception(), std::move(parts));
}

}  // namespace

ShardingPlan plan_of(const ModuleTree& tree, const Fsdp2Plan& fsdp2, const Fsdp2Shown& shown,
                     const PlanQuestion& question) {
  refuse_first_forward(fsdp2);
  ShardingPlan plan{
      .runtime = Runtime::fsdp2,
      .strategy = std::string(name_of(shown.sharding)),
      .mesh = text_of(Mesh{.replicate = shown.mesh.replicas, .shard = shown.mesh.shards}),
      .wrap = shown.wrap,
      .precision = question.precision,
      .optimizer = std::string(name_of(question.optimizer.kind)),
      .world = question.world,
      .whole = whole_states(tree, question.optimizer, question.float32_parameters)};
  for (const std::string& warning : fsdp2.warnings) plan.warnings.push_back({"fsdp2", warning});
  for (const Fsdp2Group& group : fsdp2.groups) {
    plan.units.push_back(planned(tree, group, question));
    const GroupStates states = group_states(tree, group, question);
    plan.per_rank = plan.per_rank + states.held;
    plan.padding = plan.padding + states.padding;
  }
  return plan;
}

}  // namespace shardscope
