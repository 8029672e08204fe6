#include "cli/pytorch_remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/pytorch/runtimes/training/requested_setup.h"

namespace shardscope {
namespace {

/// Changes the training; false: it is so already, or the runtime has no such setting.
using Change = bool (*)(PytorchScenario&);

bool fuse_optimizer(PytorchScenario& scenario) {
  auto& implementation = scenario.training.setup.loop.optimizer.implementation;
  const bool changes = implementation == eager::OptimizerImplementation::foreach;
  implementation = eager::OptimizerImplementation::fused;
  return changes;
}

bool view_buckets(PytorchScenario& scenario) {
  auto* ddp = std::get_if<eager::ddp::Options>(&scenario.training.setup.runtime);
  if (!ddp || ddp->gradient_as_bucket_view) return false;
  return ddp->gradient_as_bucket_view = true;
}

TrainingPrecision precision_of(const eager::TrainingSetup& setup) {
  const std::optional<Dtype> dtype =
      setup.forward_autocast ? setup.forward_autocast : setup.loop.autocast;
  if (!dtype) return TrainingPrecision::fp32;
  return *dtype == Dtype::float16 ? TrainingPrecision::fp16_mixed : TrainingPrecision::bf16_mixed;
}

/// DDP's replicas become FSDP2's shards over the same ranks.
bool shard_replicas(PytorchScenario& scenario) {
  eager::TrainingSetup& setup = scenario.training.setup;
  if (!std::holds_alternative<eager::ddp::Options>(setup.runtime) || setup.world == 1) return false;
  eager::TrainingSetup sharded =
      eager::requested_setup(scenario.model, {.runtime = Runtime::fsdp2,
                                              .precision = precision_of(setup),
                                              .world = setup.world,
                                              .rank = setup.rank});
  setup.runtime = std::move(sharded.runtime);
  setup.made_on = sharded.made_on;
  setup.forward_autocast.reset();
  setup.loop.autocast.reset();
  return true;
}

bool checkpoint_blocks(PytorchScenario& scenario) {
  if (!scenario.training.setup.checkpointing.modules.empty()) return false;
  scenario.training.setup.checkpointing = eager::checkpointing_of(scenario.model, {.every = 1});
  return !scenario.training.setup.checkpointing.modules.empty();
}

bool shard_parameters(PytorchScenario& scenario) {
  auto* fsdp = std::get_if<eager::Fsdp1Setup>(&scenario.training.setup.runtime);
  if (!fsdp) return false;
  const bool changes = fsdp->units.strategy != ShardingStrategy::full_shard && !fsdp->units.mesh;
  fsdp->units.strategy = ShardingStrategy::full_shard;
  return changes;
}

bool take_one_sequence(PytorchScenario& scenario) {
  auto& loop = scenario.training.setup.loop;
  if (loop.batch == 1) return false;
  // From the third on they take the same memory.
  loop.micro_batches = static_cast<int>(std::min<std::int64_t>(loop.micro_batches * loop.batch, 3));
  loop.batch = 1;
  return true;
}

struct Attempt {
  std::string_view setting;
  Change change;
};
constexpr Attempt attempts[] = {
    {"a fused optimizer (--optimizer-implementation fused)", fuse_optimizer},
    {"DistributedDataParallel(gradient_as_bucket_view=True)", view_buckets},
    {"fsdp_sharding_strategy: FULL_SHARD", shard_parameters},
    {"activation checkpointing of every block (--checkpointing full)", checkpoint_blocks},
    {"sharding over the same ranks: fsdp_version 2 (--runtime fsdp2)", shard_replicas},
    {"batch 1 and as many more micro-batches (--batch 1 --accumulate)", take_one_sequence}};

}  // namespace

std::optional<Remedy> find_remedy(const PytorchScenario& scenario, const HardwareProfile& profile) {
  for (const Attempt& attempt : attempts) {
    PytorchScenario changed = scenario;
    if (!attempt.change(changed)) continue;
    const Summary summary = predict(changed, profile).summary;
    if (!summary.fits) continue;
    Bytes reserved;
    for (const StepSummary& step : summary.steps)
      reserved = std::max(reserved, step.memory.peak_reserved);
    return Remedy{.setting = std::string(attempt.setting), .reserved = reserved};
  }
  return std::nullopt;
}

}  // namespace shardscope
