// DeepSpeed's flat groups (stages 1 and 2) and partitions (stage 3) as a ShardingPlan.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/pytorch/plans/deepspeed_flat_groups.h"
#include "core/pytorch/plans/deepspeed_zero3.h"
#include "core/pytorch/plans/plan_states.h"
#include "core/pytorch/plans/runtime_plans.h"
#include "core/schedule/model_states.h"

namespace shardscope {
namespace {

const TreeParameter& at(const ModuleTree& tree, std::int32_t parameter) {
  return tree.parameters[static_cast<std::size_t>(parameter)];
}

/// A float32 master and the optimizer's tensors. DeepSpeed keeps a master in every precision:
/// stage_1_and_2.py, single_partition_of_fp32_groups; stage3.py, fp32_partitioned_groups_flat.
Bytes master_and_states(std::int64_t elements, const Optimizer& optimizer) {
  return bytes_of(elements * (1 + optimizer_tensors(optimizer)), Dtype::float32);
}

Bytes frozen_bytes(const ModuleTree& tree, const ZeroSettings& settings) {
  Bytes sum;
  for (const TreeParameter& parameter : tree.parameters)
    if (!parameter.same_as && !is_optimized(parameter))
      sum += bytes_of(parameter.elements(), dtype_under(settings, parameter));
  return sum;
}

/// What one device would hold: stage 0, where only 16-bit training has a master.
ModelStates whole(const ModuleTree& tree, const ZeroSettings& settings,
                  const Optimizer& optimizer) {
  ModelStates sum;
  for (const TreeParameter& parameter : tree.parameters) {
    if (parameter.same_as) continue;
    const std::int64_t trained = parameter.trainable ? parameter.elements() : 0;
    const Dtype dtype = dtype_under(settings, parameter);
    const bool master = settings.precision.has_value() || settings.stage > 0;
    sum.parameters += bytes_of(parameter.elements(), dtype);
    sum.gradients += bytes_of(trained, settings.gradient_accumulation.value_or(dtype));
    sum.optimizer_states += master
                                ? master_and_states(trained, optimizer)
                                : bytes_of(trained * optimizer_tensors(optimizer), Dtype::float32);
  }
  return sum;
}

PlannedBucket planned(const ModuleTree& tree, const ZeroFlatGroup& group) {
  PlannedBucket bucket{.padded_elements = group.flat_elements,
                       .shard_elements = group.partition_elements};
  for (const std::int32_t parameter : group.parameters) {
    bucket.parameters.push_back(at(tree, parameter).name);
    bucket.elements += at(tree, parameter).elements();
  }
  return bucket;
}

/// Stage 1 keeps whole gradients until the optimizer steps, stage 2 a rank's part; BF16_Optimizer a
/// whole float32 buffer.
Bytes gradient_bytes(const ZeroFlatGroup& group, const ZeroSettings& settings,
                     std::int64_t elements) {
  if (zero_optimizer(settings) == ZeroOptimizer::bf16)
    return bytes_of(group.flat_elements, Dtype::float32);
  return bytes_of(settings.stage == 1 ? elements : group.partition_elements,
                  settings.gradient_accumulation.value_or(group.dtype));
}

void add_flat_groups(const ModuleTree& tree, const ZeroSettings& settings,
                     const PlanQuestion& question, ShardingPlan& plan) {
  plan.per_rank.parameters = frozen_bytes(tree, settings);
  for (const ZeroFlatGroup& group : zero_flat_groups(tree, {all_parameters(tree)}, settings)) {
    plan.buckets.push_back(planned(tree, group));
    const std::int64_t elements = plan.buckets.back().elements;
    const std::int64_t padding = zero_partition(tree, group, question.rank).padding_elements;
    plan.per_rank =
        plan.per_rank + ModelStates{.parameters = bytes_of(group.flat_elements, group.dtype),
                                    .gradients = gradient_bytes(group, settings, elements),
                                    .optimizer_states = master_and_states(group.partition_elements,
                                                                          question.optimizer)};
    plan.padding = plan.padding +
                   ModelStates{.parameters = bytes_of(group.flat_elements - elements, group.dtype),
                               .optimizer_states = master_and_states(padding, question.optimizer)};
  }
}

std::vector<int> sub_groups_of(const ModuleTree& tree, const Zero3Plan& zero3) {
  std::vector<int> of(tree.parameters.size(), -1);
  for (std::size_t group = 0; group < zero3.sub_groups.size(); ++group)
    for (const std::int32_t parameter : zero3.sub_groups[group].parameters)
      of[static_cast<std::size_t>(parameter)] = static_cast<int>(group);
  return of;
}

/// Padding of a parameter lies at the end of its last partitions.
std::int64_t padding_on(const Zero3Parameter& parameter, std::int64_t elements, int rank) {
  const std::int64_t before = parameter.partition_elements * rank;
  const std::int64_t real =
      std::clamp<std::int64_t>(elements - before, 0, parameter.partition_elements);
  return parameter.partition_elements - real;
}

void add_partitions(const ModuleTree& tree, const ZeroSettings& settings,
                    const PlanQuestion& question, ShardingPlan& plan) {
  const Zero3Plan zero3 = zero3_plan(tree, {all_parameters(tree)}, settings);
  const std::vector<int> sub_group = sub_groups_of(tree, zero3);
  for (const Zero3Parameter& part : zero3.parameters) {
    const TreeParameter& parameter = at(tree, part.parameter);
    const Dtype dtype = dtype_under(settings, parameter);
    const std::int64_t elements = parameter.elements();
    plan.partitions.push_back({.name = parameter.name,
                               .elements = elements,
                               .shard_elements = part.partition_elements,
                               .padding_elements = part.padding_elements,
                               .persistent = part.persistent,
                               .sub_group = sub_group[static_cast<std::size_t>(part.parameter)]});
    // A persistent parameter stays gathered beside its partition.
    plan.per_rank.parameters +=
        bytes_of(part.partition_elements + (part.persistent ? elements : 0), dtype);
    const std::int64_t padding = padding_on(part, elements, question.rank);
    const bool optimized = is_optimized(parameter);
    const Dtype gradients = settings.gradient_accumulation.value_or(dtype);
    if (optimized) plan.per_rank.gradients += bytes_of(part.partition_elements, gradients);
    plan.padding = plan.padding +
                   ModelStates{.parameters = bytes_of(padding, dtype),
                               .gradients = bytes_of(optimized ? padding : 0, gradients),
                               .optimizer_states =
                                   master_and_states(optimized ? padding : 0, question.optimizer)};
  }
  plan.per_rank.optimizer_states = master_and_states(zero3.partition_elements, question.optimizer);
}

std::string_view strategy_name(int stage) {
  constexpr std::array<ShardingStrategy, 4> strategies{
      ShardingStrategy::no_shard, ShardingStrategy::zero1, ShardingStrategy::shard_grad_op,
      ShardingStrategy::full_shard};
  return name_of(strategies[static_cast<std::size_t>(stage)]);
}

}  // namespace

ShardingPlan plan_of(const ModuleTree& tree, const ZeroSettings& settings,
                     const PlanQuestion& question) {
  const Mesh mesh =
      settings.stage == 0 ? Mesh{.replicate = settings.world} : Mesh{.shard = settings.world};
  ShardingPlan plan{.runtime = Runtime::deepspeed,
                    .strategy = std::string(strategy_name(settings.stage)),
                    .mesh = text_of(mesh),
                    .wrap = "none",
                    .precision = question.precision,
                    .optimizer = std::string(name_of(question.optimizer.kind)),
                    .world = settings.world,
                    .whole = whole(tree, settings, question.optimizer)};
  if (settings.stage == 0)
    plan.per_rank = plan.whole;
  else if (settings.stage < 3)
    add_flat_groups(tree, settings, question, plan);
  else
    add_partitions(tree, settings, question, plan);
  if (settings.offload_optimizer)
    plan.warnings.push_back(
        {"offloaded-states", "optimizer states are in the CPU's memory, not on the device"});
  return plan;
}

}  // namespace shardscope
