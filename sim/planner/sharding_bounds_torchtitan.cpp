#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <vector>

#include "core/native/zero_paper.h"
#include "sim/planner/sharding_costs.h"
#include "sim/planner/torchtitan_pipeline.h"

namespace shardscope::planner {
namespace {

/// Elements of torchtitan's units: each block's, and at last the root's.
std::vector<std::int64_t> torchtitan_units(const Model& model) {
  std::vector<std::int64_t> units;
  std::int64_t root = 0;
  std::map<std::string_view, std::size_t> blocks;
  for (const DecoderBlock& block : model.decoder->blocks)
    blocks.emplace(block.module, blocks.size());
  units.resize(blocks.size());
  for (const Parameter& parameter : model.parameters) {
    const std::string_view name = parameter.name;
    // "model.layers.3" of "model.layers.3.mlp.up_proj.weight", at one of its dots.
    auto block = blocks.end();
    for (auto dot = name.find('.'); dot != name.npos && block == blocks.end();
         dot = name.find('.', dot + 1))
      block = blocks.find(name.substr(0, dot));
    (block == blocks.end() ? root : units[block->second]) += parameter.elements();
  }
  units.push_back(root);
  return units;
}

/// Elements of a mixture's units: embedding, norm with output, and what a block has beside its
/// experts and of them.
struct MixtureUnits {
  std::int64_t embedding = 0, head = 0;
  std::vector<std::int64_t> dense, experts;  ///< by block
};

MixtureUnits mixture_units(const Model& model) {
  constexpr std::string_view layers = ".layers.", experts = ".mlp.experts.";
  MixtureUnits units;
  for (const Parameter& parameter : model.parameters) {
    const std::string_view name = parameter.name;
    const auto at = name.find(layers);
    if (at == name.npos) {
      (name.find("embed") == name.npos ? units.head : units.embedding) += parameter.elements();
      continue;
    }
    std::size_t block = 0;
    std::from_chars(name.data() + at + layers.size(), name.data() + name.size(), block);
    if (units.dense.size() <= block) units.dense.resize(block + 1);
    units.experts.resize(units.dense.size());
    const bool is_expert = name.find(experts) != name.npos;
    (is_expert ? units.experts : units.dense)[block] += parameter.elements();
  }
  return units;
}

/// What a unit takes to gather, to reduce, and to sum over replicas.
struct UnitTimes {
  Duration gather, reduction, between;
};

/// One rank exchanges nothing.
UnitTimes mixture_times(std::int64_t elements, const Group& shards, const ShardingCosts& costs) {
  UnitTimes times;
  const auto ranks = static_cast<std::int64_t>(shards.ranks.size());
  if (ranks > 1) {
    times.gather = costs.time(OperationKind::all_gather, elements, costs.dtype, shards);
    times.reduction =
        costs.time(OperationKind::reduce_scatter, elements, torchtitan_reduce_dtype, shards);
  }
  if (costs.replicas.ranks.size() > 1)
    times.between = costs.time(OperationKind::all_reduce, elements / ranks, torchtitan_reduce_dtype,
                               costs.replicas);
  return times;
}

/// Units that have the same ranks: how long their collectives take, and how much is copied out of
/// what is gathered and into what is reduced.
struct MixtureSums {
  const Group& shards;
  Duration gathers, reductions, between;
  std::int64_t gathered = 0, reduced = 0;

  UnitTimes add(std::int64_t elements, bool twice, const ShardingCosts& costs) {
    const UnitTimes times = mixture_times(elements, shards, costs);
    const int gathers_of_it = twice ? 2 : 1;
    gathers += times.gather * gathers_of_it;
    reductions += times.reduction;
    between += times.between;
    gathered += elements * gathers_of_it;
    reduced += elements;
    return times;
  }
};

UnitTimes torchtitan_times(std::int64_t elements, const Group& shards, const Group& replicas,
                           const ShardingCosts& costs) {
  UnitTimes times{
      .gather = costs.time(OperationKind::all_gather, elements, costs.gathered_dtype, shards),
      .reduction =
          costs.time(OperationKind::reduce_scatter, elements, torchtitan_reduce_dtype, shards)};
  if (replicas.ranks.size() > 1)
    times.between = costs.time(OperationKind::all_reduce,
                               elements / static_cast<std::int64_t>(shards.ranks.size()),
                               torchtitan_reduce_dtype, replicas);
  return times;
}

}  // namespace

ShardingBounds torchtitan_bounds(const ShardingCosts& costs) {
  const Choice& choice = costs.choice;
  const TorchtitanAxes& axes = *choice.torchtitan;
  const int ranks = choice.mesh.shard * axes.context;
  const Group shards = group_of(axes.tensor, ranks);
  const Group replicas = group_of(axes.ranks() * choice.mesh.shard, choice.mesh.replicate);
  const bool again = shards_parameters(choice.sharding);
  ShardingBounds result;
  PerStep& each = result.each;
  std::int64_t largest = 0;
  Duration all_gathers, largest_gather;
  std::int64_t costed = -1;  // blocks are alike
  UnitTimes times;
  for (const std::int64_t whole : torchtitan_units(costs.inputs.model)) {
    const std::int64_t elements = whole / axes.tensor;
    if (elements != costed) {
      times = torchtitan_times(elements, shards, replicas, costs);
      costed = elements;
    }
    all_gathers += times.gather;
    each.communication.reductions += times.reduction;
    each.communication.between_replicas += times.between;
    largest = std::max(largest, elements);
    largest_gather = std::max(largest_gather, times.gather);
    each.exposed = times.gather + times.reduction;  // at last the root's
  }
  each.communication.gathers =
      all_gathers + (again ? std::max(Duration{}, all_gathers - largest_gather * 2) : Duration{});
  const std::int64_t elements = costs.elements / axes.tensor;
  const std::int64_t copied_again = again ? std::max<std::int64_t>(0, elements - 2 * largest) : 0;
  each.copies = costs.copied(elements + copied_again, costs.gathered_dtype) +
                costs.copied(elements, costs.dtype);
  if (!again) result.gathered = bytes_of(elements, costs.gathered_dtype);
  if (choice.precision == TrainingPrecision::bf16) return result;
  result.states =
      zero_paper_states(costs.trainable / axes.tensor, ShardingStrategy::full_shard, ranks,
                        costs.inputs.training.optimizer, Precision::fp32, Dtype::float32);
  result.update = costs.read_once(result.states);
  return result;
}

ShardingBounds mixture_bounds(const ShardingCosts& costs) {
  const Choice& choice = costs.choice;
  const int spread = expert_ranks(choice), shard = choice.mesh.shard;
  const Group expert_shards = group_of(spread, shard / spread);
  const bool again = shards_parameters(choice.sharding);
  const MixtureUnits units = mixture_units(costs.inputs.model);
  MixtureSums dense{.shards = costs.shards}, experts{.shards = expert_shards};
  for (std::size_t block = 0; block < units.dense.size(); ++block) {
    const bool apart = spread > 1 && units.experts[block] > 0;
    dense.add(units.dense[block] + (apart ? 0 : units.experts[block]), again, costs);
    if (apart) experts.add(units.experts[block] / spread, again, costs);
  }
  dense.add(units.head, false, costs);
  const UnitTimes embedding = dense.add(units.embedding, again, costs);
  // What one rank holds is neither gathered nor reduced.
  const bool are_exchanged = expert_shards.ranks.size() > 1;
  const std::int64_t gathered = dense.gathered + (are_exchanged ? experts.gathered : 0);
  const std::int64_t reduced = dense.reduced + (are_exchanged ? experts.reduced : 0);
  ShardingBounds result;
  PerStep& each = result.each;
  each.communication = {.gathers = dense.gathers,
                        .reductions = dense.reductions,
                        .between_replicas = dense.between,
                        .second_copy = {},
                        .expert_gathers = experts.gathers,
                        .expert_reductions = experts.reductions,
                        .between_expert_replicas = experts.between};
  each.exposed = embedding.gather + embedding.reduction;
  each.copies = costs.copied(gathered, costs.dtype) + costs.copied(reduced, costs.dtype);
  if (!again) result.gathered = bytes_of(reduced, costs.dtype);
  result.states =
      zero_paper_states(costs.trainable, ShardingStrategy::full_shard, shard,
                        costs.inputs.training.optimizer, Precision::fp32, Dtype::float32);
  result.update = costs.read_once(result.states);
  return result;
}

}  // namespace shardscope::planner
