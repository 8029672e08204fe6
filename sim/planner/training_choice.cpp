#include "sim/planner/training_choice.h"

#include <algorithm>

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

Mesh whole_mesh(S sharding, int world) {
  return sharding == S::no_shard ? Mesh{.replicate = world} : Mesh{.shard = world};
}

void read(const eager::PlainSetup&, const PytorchTraining& training, Choice& choice) {
  choice.runtime = Runtime::ddp;
  choice.sharding = S::no_shard;
  choice.mesh = {.replicate = training.setup.world};
}

void read(const eager::ddp::Options&, const PytorchTraining& training, Choice& choice) {
  read(eager::PlainSetup{}, training, choice);
  if (!training.setup.loop.zero_redundancy) return;
  choice.sharding = S::zero1;
  choice.mesh = whole_mesh(choice.sharding, training.setup.world);
}

Prefetch prefetch_of(const eager::fsdp1::Options& options) {
  using eager::fsdp1::BackwardPrefetch;
  if (options.forward_prefetch) return Prefetch::both;
  if (options.backward_prefetch == BackwardPrefetch::none) return Prefetch::none;
  return options.backward_prefetch == BackwardPrefetch::post ? Prefetch::post : Prefetch::pre;
}

void read(const eager::Fsdp1Setup& fsdp, const PytorchTraining& training, Choice& choice) {
  const int world = training.setup.world;
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

void read(const eager::Fsdp2Setup& fsdp, const PytorchTraining&, Choice& choice) {
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

void read(const eager::DeepSpeedSetup& zero, const PytorchTraining& training, Choice& choice) {
  constexpr S stages[] = {S::no_shard, S::zero1, S::shard_grad_op, S::full_shard};
  const DeepSpeedSettings& settings = zero.settings;
  const int world = training.setup.world;
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

TrainingPrecision precision_of(const PytorchTraining& training) {
  if (training.precision == name_of(TrainingPrecision::bf16) &&
      training.runtime != Runtime::deepspeed)
    return TrainingPrecision::bf16;
  if (training.precision.starts_with("bf16")) return TrainingPrecision::bf16_mixed;
  if (training.precision.starts_with("fp16")) return TrainingPrecision::fp16_mixed;
  return TrainingPrecision::fp32;
}

/// By wrappers, or by transformers itself.
std::size_t checkpointed_blocks(const eager::TrainingSetup& setup) {
  if (!setup.checkpointing.modules.empty()) return setup.checkpointing.modules.size();
  return setup.fine_tuning ? setup.fine_tuning->checkpointed_layers.size() : 0;
}

}  // namespace

Choice choice_of(const PytorchTraining& training, const Model& model) {
  const eager::TrainingSetup& setup = training.setup;
  Choice choice{
      .batch = setup.loop.batch,
      .micro_batches = setup.loop.micro_batches,
      .reduces_every_micro_batch = setup.loop.micro_batches > 1 && !setup.loop.syncs_once &&
                                   !std::holds_alternative<eager::DeepSpeedSetup>(setup.runtime),
      .precision = precision_of(training)};
  std::visit([&](const auto& runtime) { read(runtime, training, choice); }, setup.runtime);
  if (setup.tensor) {
    choice.runtime = Runtime::fsdp2;
    choice.tensor = setup.tensor->ranks;
    choice.prefetch = Prefetch::pre;
    const auto* fsdp2 = std::get_if<eager::Fsdp2Setup>(&setup.runtime);
    const bool hybrid = fsdp2 && fsdp2->mesh.size() == 2;
    choice.sharding = hybrid ? S::hybrid_shard : S::full_shard;
    choice.mesh = {.replicate = hybrid ? fsdp2->mesh[0] : 1,
                   .shard = fsdp2 ? fsdp2->mesh.back() : 1};
  }
  if (const std::size_t checkpointed = checkpointed_blocks(setup); checkpointed > 0) {
    const std::size_t blocks = eager::checkpointing_of(model, {.every = 1}).modules.size();
    choice.checkpointing.every = static_cast<int>(std::max<std::size_t>(1, blocks / checkpointed));
  }
  return choice;
}

}  // namespace shardscope::planner
