// FSDP1's units as a ShardingPlan.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/plans/plan_states.h"
#include "core/pytorch/plans/runtime_plans.h"
#include "core/schedule/model_states.h"

namespace shardscope {
namespace {

/// Building the units once a rank is slow for large worlds; more ranks than this are sampled.
constexpr int most_ranks_compared = 64;

std::int64_t parameter_elements(const FlatParameter& flat) {
  return std::accumulate(flat.elements.begin(), flat.elements.end(), std::int64_t{0});
}

/// Elements of a shard that belong to no parameter: fill and padding.
std::int64_t padding_of(const FlatParameter& flat, int shard) {
  return flat.shard_elements - piece_of(flat, shard).elements;
}

std::vector<std::int64_t> padding_by_rank(const Fsdp1Unit& unit, int world) {
  std::vector<std::int64_t> by_shard;
  for (int shard = 0; shard < unit.flat.shards; ++shard)
    by_shard.push_back(padding_of(unit.flat, shard));
  std::vector<std::int64_t> by_rank;
  for (int rank = 0; rank < world; ++rank)
    by_rank.push_back(by_shard[static_cast<std::size_t>(unit.shard_of(rank))]);
  return by_rank;
}

PlannedUnit planned(const Fsdp1Unit& unit, int world) {
  PlannedUnit result{.name = unit.module,
                     .class_name = unit.class_name,
                     .elements = parameter_elements(unit.flat),
                     .unpadded_elements = unit.flat.unpadded_elements,
                     .padded_elements = unit.flat.padded_elements(),
                     .shard_elements = unit.flat.shard_elements,
                     .padding_elements_by_rank = padding_by_rank(unit, world)};
  for (const Fsdp1Unit::Parameter& parameter : unit.parameters)
    result.parameters.push_back(parameter.name);
  return result;
}

/// Elements of trainable parameters in one shard.
std::int64_t trained_elements(const ModuleTree& tree, const Fsdp1Unit& unit, int shard) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const auto source = static_cast<std::size_t>(unit.parameters[i].source);
    const auto part = part_of(unit.flat, i, shard);
    if (part && tree.parameters[source].trainable) sum += part->elements;
  }
  return sum;
}

struct UnitStates {
  ModelStates held;
  ModelStates padding;
};

UnitStates unit_states(const ModuleTree& tree, const Fsdp1Unit& unit, const Fsdp1Settings& settings,
                       const PlanQuestion& question) {
  if (unit.parameters.empty()) return {};
  const int shard = unit.shard_of(question.rank);
  const auto& first = tree.parameters[static_cast<std::size_t>(unit.parameters.front().source)];
  const Dtype dtype = question.float32_parameters && unit.trainable ? Dtype::float32 : first.dtype;
  const std::int64_t stored = unit.flat.shard_elements;
  const std::int64_t real = piece_of(unit.flat, shard).elements;
  const std::int64_t trained = trained_elements(tree, unit, shard);
  const std::int64_t with_gradient = unit.trainable ? stored : 0;
  // The optimizer sees the FlatParameter, or with use_orig_params views of its parameters.
  const std::int64_t with_states = settings.use_original_parameters ? trained : with_gradient;
  const auto states = [&](const StateElements& elements) {
    return states_in(dtype, elements, question.optimizer);
  };
  const ModelStates held = states({stored, with_gradient, with_states});
  return {
      .held = held,
      .padding = states({stored - real, unit.trainable ? stored - real : 0,
                         settings.use_original_parameters || !unit.trainable ? 0 : stored - real})};
}

std::string wrap_text(const Fsdp1Settings& settings) {
  if (!settings.wrapped_by_hand.empty()) return "by hand";
  if (const auto* size = std::get_if<SizeWrap>(&settings.auto_wrap))
    return fmt::format("size:{}", size->min_elements);
  if (std::holds_alternative<NoWrap>(settings.auto_wrap)) return "none";
  if (const auto* wrap = std::get_if<TransformerWrap>(&settings.auto_wrap))
    return fmt::format("transformer ({})", fmt::join(wrap->classes, ", "));
  return "by policy";
}

Mesh mesh_of(const Fsdp1Settings& settings) {
  if (settings.mesh) return *settings.mesh;
  if (settings.strategy == ShardingStrategy::no_shard) return {.replicate = settings.world};
  if (!is_hybrid(settings.strategy)) return {.shard = settings.world};
  const int shards = std::max(1, std::min(settings.ranks_per_node, settings.world));
  return {.replicate = settings.world / shards, .shard = shards};
}

void refuse_disagreement(const ModuleTree& tree, const Fsdp1Settings& settings) {
  std::vector<int> ranks;
  const int step = std::max(1, settings.world / most_ranks_compared);
  for (int rank = 0; rank < settings.world; rank += step) ranks.push_back(rank);
  const auto differ = ranks_that_disagree(tree, settings, ranks);
  if (!differ) return;
  throw Error({.where = "units",
               .what = fmt::format("ranks {} and {} arrive at different units, because each counts "
                                   "only its own part of a tied parameter: a real run would hang",
                                   differ->first, differ->second),
               .way_out = "wrap by transformer class, or set use_orig_params to false",
               .code = ExitCode::no});
}

PlanWarning warning_of(const SplitTie& tie) {
  const std::string what =
      tie.flattened_twice ? "FSDP1 flattens it twice silently, and the two copies drift apart"
                          : "FSDP1 leaves it in the first unit alone";
  return {.rule = "shared-parameters-split",
          .text = fmt::format("{} is {} in another unit: {}", tie.other, tie.name, what)};
}

PlanWarning warning_of(const Fsdp1Warning& warning) {
  using Kind = Fsdp1Warning::Kind;
  const std::string& subject = warning.subject;
  switch (warning.kind) {
    case Kind::no_shard_for_one_rank:
      return {"one-rank", fmt::format("one rank: FSDP1 turns {} into NO_SHARD", subject)};
    case Kind::batch_norm_in_full:
      return {"batch-norm-in-full",
              fmt::format("{} stay in full precision, each in a unit of its own", subject)};
    case Kind::mixed_trainable:
      return {"frozen-and-trained",
              fmt::format("the unit of {} has frozen and trained parameters: gradients of all are "
                          "stored",
                          subject.empty() ? "the root" : subject)};
    case Kind::whole_unit_ignored:
      return {"unit-ignored", fmt::format("{} was to be wrapped and is ignored", subject)};
  }
  return {};
}

}  // namespace

ShardingPlan plan_of(const ModuleTree& tree, const Fsdp1Settings& settings,
                     const PlanQuestion& question) {
  const Fsdp1Plan fsdp1 = plan_fsdp1(tree, settings, question.rank);
  if (fsdp1.may_differ_between_ranks) refuse_disagreement(tree, settings);
  ShardingPlan plan{.runtime = Runtime::fsdp1,
                    .strategy = std::string(name_of(settings.strategy)),
                    .mesh = text_of(mesh_of(settings)),
                    .wrap = wrap_text(settings),
                    .precision = question.precision,
                    .optimizer = std::string(name_of(question.optimizer.kind)),
                    .world = settings.world,
                    .whole = whole_states(tree, question.optimizer, question.float32_parameters)};
  for (const Fsdp1Unit& unit : fsdp1.units) {
    plan.units.push_back(planned(unit, settings.world));
    const UnitStates states = unit_states(tree, unit, settings, question);
    plan.per_rank = plan.per_rank + states.held;
    plan.padding = plan.padding + states.padding;
  }
  for (const SplitTie& tie : split_ties(tree, fsdp1)) plan.warnings.push_back(warning_of(tie));
  for (const Fsdp1Warning& warning : fsdp1.warnings) plan.warnings.push_back(warning_of(warning));
  return plan;
}

}  // namespace shardscope
