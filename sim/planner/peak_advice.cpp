#include "sim/planner/peak_advice.h"

#include <algorithm>
#include <variant>

namespace shardscope {
namespace {

using eager::Fsdp1Setup;
using eager::Fsdp2Setup;
using eager::TrainingSetup;

using Applies = bool (*)(const Holder&, const TrainingSetup&);

struct Rule {
  MemoryCategory category;
  Applies applies;
  std::string_view setting;
};

bool always(const Holder&, const TrainingSetup&) { return true; }

bool is_sharded(const Holder&, const TrainingSetup& setup) {
  return std::holds_alternative<Fsdp1Setup>(setup.runtime) ||
         std::holds_alternative<Fsdp2Setup>(setup.runtime);
}

bool replicates(const Holder&, const TrainingSetup& setup) {
  return std::holds_alternative<eager::ddp::Options>(setup.runtime) ||
         std::holds_alternative<eager::PlainSetup>(setup.runtime);
}

bool keeps_gradients_apart(const Holder&, const TrainingSetup& setup) {
  const auto* ddp = std::get_if<eager::ddp::Options>(&setup.runtime);
  return ddp && !ddp->gradient_as_bucket_view;
}

const ShardingStrategy* strategy_of(const TrainingSetup& setup) {
  const auto* fsdp = std::get_if<Fsdp1Setup>(&setup.runtime);
  return fsdp ? &fsdp->units.strategy : nullptr;
}

/// FSDP1 keeps parameters whole from forward to backward.
bool shards_only_gradients(const Holder&, const TrainingSetup& setup) {
  const ShardingStrategy* strategy = strategy_of(setup);
  return strategy && (*strategy == ShardingStrategy::shard_grad_op ||
                      *strategy == ShardingStrategy::hybrid_shard_zero2);
}

bool shards_nothing(const Holder&, const TrainingSetup& setup) {
  const ShardingStrategy* strategy = strategy_of(setup);
  return strategy && *strategy == ShardingStrategy::no_shard;
}

bool is_one_unit(const Holder&, const TrainingSetup& setup) {
  if (const auto* fsdp = std::get_if<Fsdp1Setup>(&setup.runtime))
    return std::holds_alternative<NoWrap>(fsdp->units.auto_wrap) &&
           fsdp->units.wrapped_by_hand.empty();
  const auto* fsdp = std::get_if<Fsdp2Setup>(&setup.runtime);
  return fsdp && fsdp->calls.size() == 1;
}

/// The last two calls are the final norm's and the root's, which are needed again at once.
bool keeps_after_forward(const Holder&, const TrainingSetup& setup) {
  const auto* fsdp = std::get_if<Fsdp2Setup>(&setup.runtime);
  return fsdp && std::any_of(fsdp->calls.begin(), fsdp->calls.end() - 1, [](const auto& call) {
           const auto& reshard = call.reshard_after_forward;
           const bool* on = reshard ? std::get_if<bool>(&*reshard) : nullptr;
           return on && !*on && call.modules.size() == 1;
         });
}

bool has_no_limit(const Holder&, const TrainingSetup& setup) {
  const auto* fsdp = std::get_if<Fsdp1Setup>(&setup.runtime);
  return fsdp && !fsdp->options.limit_all_gathers;
}

bool prefetches_before(const Holder&, const TrainingSetup& setup) {
  const auto* fsdp = std::get_if<Fsdp1Setup>(&setup.runtime);
  return fsdp && fsdp->options.backward_prefetch == eager::fsdp1::BackwardPrefetch::pre;
}

bool prefetches_forward(const Holder&, const TrainingSetup& setup) {
  const auto* fsdp = std::get_if<Fsdp1Setup>(&setup.runtime);
  return fsdp && fsdp->options.forward_prefetch;
}

bool reduces_once(const Holder& holder, const TrainingSetup& setup) {
  return is_sharded(holder, setup) && setup.loop.micro_batches > 1 && setup.loop.syncs_once;
}

bool keeps_zeroed(const Holder&, const TrainingSetup& setup) {
  return !setup.loop.zero_grad_to_none;
}

/// PEFT's wrappers count as the root.
bool is_of_the_logits(const Holder& holder, const TrainingSetup&) {
  return holder.owner.empty() || holder.owner == "base_model" ||
         holder.owner == "base_model.model" || holder.owner.ends_with("lm_head") ||
         holder.owner.ends_with("embed_out");
}

bool is_not_checkpointed(const Holder&, const TrainingSetup& setup) {
  return setup.checkpointing.modules.empty() &&
         (!setup.fine_tuning || setup.fine_tuning->checkpointed_layers.empty());
}

/// A base that does not train and is not quantised either.
bool has_a_whole_base(const Holder&, const TrainingSetup& setup) {
  return setup.fine_tuning && setup.fine_tuning->adapter && !setup.fine_tuning->quantization;
}

bool checkpoints_selectively(const Holder&, const TrainingSetup& setup) {
  return static_cast<bool>(setup.checkpointing.options.saves);
}

bool attends_eagerly(const Holder& holder, const TrainingSetup& setup) {
  return setup.model.attention == eager::AttentionImplementation::eager && setup.model.has_sdpa &&
         holder.owner.find("attn") != std::string::npos;
}

bool steps_over_lists(const Holder& holder, const TrainingSetup& setup) {
  return holder.phase == Phase::optimizer &&
         setup.loop.optimizer.implementation == eager::OptimizerImplementation::foreach;
}

/// What a unit gathers is made within a step; shards are there before.
bool is_gathered(const Holder& holder, const TrainingSetup& setup) {
  const auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime);
  const bool gathers = is_sharded(holder, setup) || (zero && zero->settings.stage == 3);
  return gathers && holder.phase != Phase::init;
}

/// FSDP1's root stays whole from forward to backward, and gathers what no unit below it wraps.
bool is_of_the_root(const Holder& holder, const TrainingSetup& setup) {
  return holder.owner.empty() && std::holds_alternative<Fsdp1Setup>(setup.runtime);
}

bool is_in_forward(const Holder& holder, const TrainingSetup&) {
  return holder.phase == Phase::forward;
}

bool is_in_backward(const Holder& holder, const TrainingSetup&) {
  return holder.phase == Phase::backward;
}

template <Applies... conditions>
bool all_of(const Holder& holder, const TrainingSetup& setup) {
  return (conditions(holder, setup) && ...);
}

bool is_deepspeed_below_3(const Holder&, const TrainingSetup& setup) {
  const auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime);
  return zero && zero->settings.stage < 3;
}

bool is_deepspeed(const Holder&, const TrainingSetup& setup) {
  return std::holds_alternative<eager::DeepSpeedSetup>(setup.runtime);
}

using enum MemoryCategory;

/// The first that applies counts.
constexpr Rule rules[] = {
    {parameters, all_of<is_gathered, is_one_unit>,
     "units of layers (fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP)"},
    {parameters, all_of<is_gathered, is_of_the_root>,
     "units for what the root holds itself (embeddings, unless tied)"},
    {parameters, all_of<is_gathered, shards_only_gradients>, "fsdp_sharding_strategy: FULL_SHARD"},
    {parameters, all_of<is_gathered, keeps_after_forward>, "fsdp_reshard_after_forward: true"},
    {parameters, all_of<is_gathered, has_no_limit>, "limit_all_gathers=True"},
    {parameters, all_of<is_gathered, is_in_forward, prefetches_forward>,
     "fsdp_forward_prefetch: false"},
    {parameters, all_of<is_gathered, is_in_backward, prefetches_before>,
     "fsdp_backward_prefetch: BACKWARD_POST, or NO_PREFETCH"},
    {parameters, all_of<is_gathered, is_deepspeed>,
     "smaller stage3_max_live_parameters and stage3_prefetch_bucket_size"},
    {parameters, is_gathered, "smaller units"},
    {parameters, all_of<replicates, has_a_whole_base>,
     "a quantised base (--quantization nf4), or FSDP over more than one rank"},
    {parameters, replicates,
     "shard them: FSDP (fsdp_version: 2) or ZeRO-3, over more than one rank"},
    {parameters, shards_nothing, "fsdp_sharding_strategy: FULL_SHARD"},
    {parameters, is_deepspeed_below_3, "zero_optimization.stage: 3"},
    {parameters, always, "more ranks to shard over, or offloading parameters"},
    {gradients, keeps_gradients_apart, "DistributedDataParallel(gradient_as_bucket_view=True)"},
    {gradients, keeps_zeroed, "zero_grad(set_to_none=True)"},
    {gradients, replicates, "shard them: FSDP (fsdp_version: 2) or ZeRO-2"},
    {gradients, reduces_once, "reducing in every micro-batch (sync_each_batch: true)"},
    {gradients, shards_nothing, "fsdp_sharding_strategy: SHARD_GRAD_OP"},
    {gradients, always, "more ranks to shard over"},
    {optimizer_states, replicates, "shard them: FSDP (fsdp_version: 2) or ZeRO-1"},
    {optimizer_states, is_deepspeed, "zero_optimization.offload_optimizer, or more ranks"},
    {optimizer_states, is_sharded, "more ranks to shard over"},
    {activations, is_of_the_logits, "a loss in chunks of the logits, or fewer tokens (--batch)"},
    {activations, attends_eagerly, "attn_implementation: sdpa (--attention flash)"},
    {activations, all_of<is_sharded, is_not_checkpointed>,
     "activation checkpointing (fsdp_activation_checkpointing: true)"},
    {activations, is_not_checkpointed,
     "activation checkpointing (gradient_checkpointing: true, or --checkpointing full)"},
    {activations, checkpoints_selectively, "checkpointing whole blocks (--checkpointing full)"},
    {activations, always, "fewer tokens (--batch, --seq)"},
    {communication, is_one_unit, "units of layers (fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP)"},
    {communication, is_sharded, "smaller units"},
    {communication, keeps_gradients_apart,
     "DistributedDataParallel(gradient_as_bucket_view=True), which leaves one copy"},
    {communication, is_deepspeed, "smaller reduce_bucket_size and stage3_max_live_parameters"},
    {temporaries, steps_over_lists, "a fused optimizer (AdamW(fused=True))"},
    {temporaries, is_of_the_logits, "a loss in chunks of the logits, or fewer tokens (--batch)"},
    {temporaries, attends_eagerly, "attn_implementation: sdpa (--attention flash)"},
    {temporaries, always, "fewer tokens (--batch, --seq)"},
    {workspace, always, "CUBLAS_WORKSPACE_CONFIG, which cuBLAS pays for with speed"},
    {inputs, always, "fewer tokens (--batch, --seq)"},
};

}  // namespace

std::string_view advice(const Holder& holder, const TrainingSetup& setup) {
  for (const Rule& rule : rules)
    if (rule.category == holder.category && rule.applies(holder, setup)) return rule.setting;
  return {};
}

}  // namespace shardscope
