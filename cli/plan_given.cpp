#include "cli/plan_given.h"

#include <algorithm>
#include <utility>

#include "cli/plan_compare.h"
#include "cli/pytorch_prediction.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

using planner::Choice;
using planner::Offload;
using planner::Prefetch;
using S = ShardingStrategy;

Mesh whole_mesh(S sharding, int world) {
  return sharding == S::no_shard ? Mesh{.replicate = world} : Mesh{.shard = world};
}

void read(const eager::PlainSetup&, const PytorchScenario& scenario, Choice& choice) {
  choice.runtime = Runtime::ddp;
  choice.sharding = S::no_shard;
  choice.mesh = {.replicate = scenario.setup.world};
}

void read(const eager::ddp::Options&, const PytorchScenario& scenario, Choice& choice) {
  read(eager::PlainSetup{}, scenario, choice);
}

Prefetch prefetch_of(const eager::fsdp1::Options& options) {
  using eager::fsdp1::BackwardPrefetch;
  if (options.forward_prefetch) return Prefetch::both;
  if (options.backward_prefetch == BackwardPrefetch::none) return Prefetch::none;
  return options.backward_prefetch == BackwardPrefetch::post ? Prefetch::post : Prefetch::pre;
}

void read(const eager::Fsdp1Setup& fsdp, const PytorchScenario& scenario, Choice& choice) {
  const int world = scenario.setup.world;
  choice.runtime = Runtime::fsdp1;
  choice.sharding = fsdp.units.strategy;
  choice.mesh = whole_mesh(choice.sharding, world);
  if (is_hybrid(choice.sharding)) {
    const int shard = std::min(fsdp.units.ranks_per_node, world);
    choice.mesh = fsdp.units.mesh.value_or(Mesh{.replicate = world / shard, .shard = shard});
  }
  if (std::holds_alternative<NoWrap>(fsdp.units.auto_wrap)) choice.blocks_per_unit = 0;
  choice.prefetch = prefetch_of(fsdp.options);
  if (fsdp.options.offload_parameters) choice.offload = Offload::all;
}

bool keeps_gathered(const eager::Fsdp2Setup::Call& call) {
  const auto& reshards = call.reshard_after_forward;
  return reshards && std::holds_alternative<bool>(*reshards) && !std::get<bool>(*reshards);
}

void read(const eager::Fsdp2Setup& fsdp, const PytorchScenario&, Choice& choice) {
  choice.runtime = Runtime::fsdp2;
  choice.prefetch = Prefetch::pre;
  const bool keeps = std::all_of(fsdp.calls.begin(), fsdp.calls.end(), keeps_gathered);
  const bool hybrid = fsdp.mesh.size() == 2;
  choice.sharding = hybrid ? (keeps ? S::hybrid_shard_zero2 : S::hybrid_shard)
                           : (keeps ? S::shard_grad_op : S::full_shard);
  choice.mesh = {.replicate = hybrid ? fsdp.mesh[0] : 1, .shard = fsdp.mesh.back()};
  if (fsdp.calls.size() == 1) choice.blocks_per_unit = 0;
  if (fsdp.offload) choice.offload = Offload::all;
}

void read(const eager::DeepSpeedSetup& zero, const PytorchScenario& scenario, Choice& choice) {
  constexpr S stages[] = {S::no_shard, S::zero1, S::shard_grad_op, S::full_shard};
  const DeepSpeedSettings& settings = zero.settings;
  const int world = scenario.setup.world;
  choice.runtime = Runtime::deepspeed;
  choice.sharding = stages[std::clamp(settings.stage, 0, 3)];
  choice.mesh = whole_mesh(choice.sharding, world);
  if (settings.stage == 3 && settings.hpz_partition_size > 1) {
    const int shard = static_cast<int>(settings.hpz_partition_size);
    choice.sharding = S::hybrid_shard;
    choice.mesh = {.replicate = world / shard, .shard = shard};
  }
  choice.prefetch = settings.overlap_comm ? Prefetch::pre : Prefetch::none;
  if (settings.offload_optimizer.device != OffloadDevice::none) choice.offload = Offload::optimizer;
  if (settings.offload_param.device != OffloadDevice::none) choice.offload = Offload::all;
}

TrainingPrecision precision_of(const PytorchScenario& scenario) {
  if (scenario.precision == name_of(TrainingPrecision::bf16) &&
      scenario.runtime != Runtime::deepspeed)
    return TrainingPrecision::bf16;
  if (scenario.precision.starts_with("bf16")) return TrainingPrecision::bf16_mixed;
  if (scenario.precision.starts_with("fp16")) return TrainingPrecision::fp16_mixed;
  return TrainingPrecision::fp32;
}

/// Choices that `changes` settings apart from the given one lead to.
std::vector<Choice> neighbours(const Choice& given, const std::vector<Choice>& choices,
                               std::size_t changes) {
  std::vector<Choice> result;
  for (const Choice& choice : choices)
    if (choice.runtime == given.runtime && changes_between(given, choice).size() == changes)
      result.push_back(choice);
  return result;
}

/// The fastest of those that fit; by the search, which drops most of them unsimulated.
std::optional<Choice> fastest(const std::vector<Choice>& choices,
                              const planner::TrialInputs& planning, const PlanProgress& progress) {
  if (choices.empty()) return std::nullopt;
  const planner::SearchResult found =
      planner::search(choices, planning, {.places = 1, .stop = progress.stop});
  if (found.ranked.empty()) return std::nullopt;
  return choices[found.ranked.front().choice];
}

bool is_better(const Summary& changed, const Summary& given) {
  constexpr double worth_a_change = 0.99;
  if (memory_fit(changed) != MemoryFit::yes) return false;
  return !given.fits || static_cast<double>(changed.step_time.ns) <
                            worth_a_change * static_cast<double>(given.step_time.ns);
}

}  // namespace

Choice choice_of(const PytorchScenario& scenario) {
  const eager::TrainingSetup& setup = scenario.setup;
  Choice choice{
      .batch = setup.loop.batch,
      .micro_batches = setup.loop.micro_batches,
      .reduces_every_micro_batch = setup.loop.micro_batches > 1 && !setup.loop.syncs_once &&
                                   !std::holds_alternative<eager::DeepSpeedSetup>(setup.runtime),
      .precision = precision_of(scenario)};
  std::visit([&](const auto& runtime) { read(runtime, scenario, choice); }, setup.runtime);
  const std::size_t blocks = eager::checkpointing_of(scenario.model, {.every = 1}).modules.size();
  if (!setup.checkpointing.modules.empty())
    choice.checkpointing.every = static_cast<int>(std::max<std::size_t>(
        1, blocks / std::max<std::size_t>(1, setup.checkpointing.modules.size())));
  return choice;
}

GivenFile place_of_given(const PlanInputs& inputs, const std::vector<Choice>& choices,
                         const planner::TrialInputs& planning, const PlanProgress& progress) {
  const Choice given = choice_of(*inputs.given);
  GivenFile result{.name = inputs.given_name, .strategy = planner::text_of(given)};
  try {
    result.summary = predict(*inputs.given, inputs.hardware.profile).summary;
    result.summary.margin = inputs.margin;
  } catch (const Error& error) {
    result.refused = error.what();
    return result;
  }
  for (const std::size_t changes : {std::size_t{1}, std::size_t{2}}) {
    if (progress.stop.stop_requested()) break;
    const auto found = fastest(neighbours(given, choices, changes), planning, progress);
    if (!found) continue;
    Summary summary = summary_of(*found, inputs, planning);
    summary.margin = inputs.margin;
    if (!is_better(summary, result.summary)) continue;
    result.changes = changes_between(given, *found);
    result.changed = Candidate{.choice = *found, .summary = std::move(summary)};
    break;
  }
  return result;
}

}  // namespace shardscope
