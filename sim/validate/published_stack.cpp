#include "sim/validate/published_stack.h"

#include <algorithm>
#include <array>

#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

using eager::OptimizerImplementation;

/// Megatron-LM, as whoever launches it sets nothing else.
TrainingStack megatron_lm() {
  return {.name = "Megatron-LM",
          .words = {"Megatron", "dist.optimizer", "dist. optimizer"},
          .sharded = Runtime::fsdp2,
          .replicated = Runtime::deepspeed,
          .fusion = KernelFusion::by_hand,
          .optimizer = OptimizerImplementation::fused,
          .reduced_in = Dtype::float32,
          .updates_as_megatron = true,
          .checkpoints_reentrant = true,
          .selects_attention = true,
          .float8 = {.casts = Float8Casts::delayed},
          .source = "Megatron-LM core/distributed, core/optimizer/distrib_optimizer.py"};
}

/// It runs Megatron-LM with sequence parallelism, and its sums beside products.
TrainingStack megatron_bridge() {
  TrainingStack stack = megatron_lm();
  stack.name = "Megatron-Bridge";
  stack.words = {"Megatron-Bridge"};
  stack.divides_sequence = true;
  stack.overlaps_sums = true;
  stack.source =
      "Megatron-Bridge src/megatron/bridge/perf_recipes/llama (sequence_parallel, "
      "tp_comm_overlap_cfg), recipes/llama (account_for_embedding_in_pipeline_split); Megatron-LM "
      "core/distributed, core/optimizer/distrib_optimizer.py";
  return stack;
}

/// NeMo's launcher runs Megatron-LM with sequence parallelism, and its sums beside products.
TrainingStack nemo() {
  TrainingStack stack = megatron_bridge();
  stack.name = "NeMo";
  stack.words = {"NeMo"};
  stack.source =
      "NeMo-Framework-Launcher launcher_scripts/conf/training (sequence_parallel, "
      "ub_tp_comm_overlap, overlap_grad_sync); Megatron-LM core/distributed, "
      "core/optimizer/distrib_optimizer.py";
  return stack;
}

/// It runs Megatron-LM with sequence parallelism, without overlapping gradients' reduction or
/// parameters' gathers, and with experts that are filled up to a capacity of 1.
TrainingStack simumax() {
  TrainingStack stack = megatron_lm();
  stack.name = "Megatron-LM, as SimuMax runs it";
  stack.words = {"SimuMax"};
  stack.divides_sequence = true;
  stack.overlaps = false;
  stack.pads_experts = true;
  stack.source =
      "SimuMax simu_tools/megatron_scripts/scripts (--sequence-parallel, --use-distributed-"
      "optimizer, --moe-pad-expert-input-to-capacity, no --overlap-grad-reduce); Megatron-LM "
      "core/distributed, core/optimizer/distrib_optimizer.py";
  return stack;
}

TrainingStack megatron_deepspeed() {
  return {.name = "Megatron-DeepSpeed",
          .words = {"Megatron-DeepSpeed"},
          .replicated = Runtime::deepspeed,
          .fusion = KernelFusion::by_hand,
          .optimizer = OptimizerImplementation::fused,
          .overlaps = false,
          .updates_as_megatron = true,
          .pipelines_by_deepspeed = true,
          .reads_batch_sizes = true,
          .unfused_loss = true,
          .dropout = 0.1,
          .eager_attention = true,
          .checkpoints_reentrant = true,
          .source =
              "Megatron-DeepSpeed pretrain_gpt.py, megatron/mpu/random.py (CheckpointFunction), "
              "megatron/mpu/data.py (sizes_cuda.cpu()), megatron/mpu/cross_entropy.py, deepspeed "
              "runtime/pipe, runtime/bf16_optimizer.py"};
}

/// Without CUDA_LAUNCH_BLOCKING=1 its runs on 320 GPUs hung, and those on 160 could. The optimizer
/// that sums gradients of bfloat16 up in float32 came with the partition method that counts
/// embeddings as layers (chronicles-prequel.md, "Rebalancing layers"). Two runs of the day before
/// had that method without the optimizer; no row tells them apart.
TrainingStack bigscience() {
  TrainingStack stack = megatron_deepspeed();
  stack.name = "Megatron-DeepSpeed, as BigScience runs it";
  stack.words = {"bigscience"};
  stack.most_gpus_without_blocking = 160;
  stack.sums_up_with_counted_embeddings = true;
  stack.sums_everywhere = true;
  stack.source =
      "bigscience train/tr11-176B-ml/tr11-176B-ml.slurm and chronicles-prequel.md "
      "(CUDA_LAUNCH_BLOCKING=1); Megatron-DeepSpeed pretrain_gpt.py, megatron/mpu/data.py "
      "(sizes_cuda.cpu()), deepspeed runtime/pipe, runtime/bf16_optimizer.py, "
      "runtime/zero/stage_1_and_2.py";
  return stack;
}

/// GPT-2's vocabulary as it is, not filled up.
TrainingStack vtrain() {
  TrainingStack stack = megatron_deepspeed();
  stack.name = "Megatron-DeepSpeed, as vTrain runs it";
  stack.words = {"vTrain"};
  stack.vocabulary = 50257;
  stack.source =
      "vTrain src/model/gpt_modeling.py, gpt_model.py (vocab_size // world_size); "
      "Megatron-DeepSpeed "
      "pretrain_gpt.py, megatron/mpu/random.py (CheckpointFunction), deepspeed runtime/pipe";
  return stack;
}

/// It compiles each block and the loss.
TrainingStack torchtitan() {
  return {.name = "torchtitan",
          .words = {"torchtitan"},
          .sharded = Runtime::fsdp2,
          .compiled = CompileScope::blocks_and_loss,
          .optimizer = OptimizerImplementation::fused,
          .reduced_in = Dtype::float32,
          .divides_sequence = true,
          .tokens_come_second = true,
          .traces_ring = true,
          .torchtitan_attention = true,
          .float8 = {.casts = Float8Casts::compiled, .gathers_casts = true},
          .micro_batch_a_rank = true,
          .source =
              "torchtitan 820504e, models/llama3/parallelize_llama.py (apply_tp, "
              "apply_compile), models/llama3/model.py (Attention), "
              "components/loss.py, optimizer.py, docs/float8.md; PyTorch "
              "torch/distributed/_functional_collectives.py"};
}

/// The loss is not compiled, because that led to errors of CUDA. AdamW is not fused by default.
TrainingStack torchtitan_of_2024() {
  TrainingStack stack = torchtitan();
  stack.name = "torchtitan of 2024";
  stack.words = {"_202412_torchtitan"};
  stack.compiled = CompileScope::blocks;
  stack.optimizer = OptimizerImplementation::foreach;
  stack.source =
      "torchtitan 9dec370, parallelisms/parallelize_llama.py (apply_tp, apply_compile), "
      "models/llama/model.py (Attention), optimizer.py, "
      "pipeline_llama.py (pipeline_parallel_microbatches), train.py (loss_fn), "
      "docs/float8.md";
  return stack;
}

const std::vector<TrainingStack>& stacks() {
  static const std::vector<TrainingStack> known{
      {.name = "composer",
       .words = {"llm-foundry", "composer"},
       .sharded = Runtime::fsdp1,
       .fusion = KernelFusion::loss,
       .optimizer = OptimizerImplementation::loop,
       .reduces_every_micro_batch = true,
       .backward_prefetch_late = true,
       .uses_original_parameters = true,
       .metric_losses = 2,
       .attention = AttentionLibrary::triton,
       .float8 = {.casts = Float8Casts::delayed, .casts_weights = true},
       .source =
           "llm-foundry scripts/train/benchmarking/submit_benchmarks.py (attn_impl triton), "
           "llmfoundry/models/mpt (train_metrics: LanguageCrossEntropy, LanguagePerplexity); "
           "composer 0.17 trainer/dist_strategy.py (set_fsdp_default), "
           "trainer/mosaic_fsdp_utils.py (get_mixed_precision), optim/decoupled_weight_decay.py; "
           "llm-foundry scripts/train/yamls/pretrain/mpt-7b.yaml"},
      torchtitan_of_2024(),
      torchtitan(),
      vtrain(),
      bigscience(),
      megatron_deepspeed(),
      {.name = "InternEvo",
       .words = {"InternEvo", "InternLM"},
       .sharded = Runtime::fsdp1,
       .replicated = Runtime::deepspeed,
       .fusion = KernelFusion::by_hand,
       .optimizer = OptimizerImplementation::fused,
       .overlaps = false,
       .owns_whole_tensors = true,
       .attention = AttentionLibrary::flash1,
       .checkpoints_reentrant = true,
       .source = "InternEvo configs/7B_sft.py, solver/optimizer/hybrid_zero_optim.py; "
                 "InternLM doc/en/install.md (flash-attention 1.0.5)"},
      megatron_bridge(),
      nemo(),
      simumax(),
      megatron_lm(),
      {.name = "nanotron",
       .words = {"nanotron"},
       .replicated = Runtime::deepspeed,
       .fusion = KernelFusion::by_hand,
       .optimizer = OptimizerImplementation::fused,
       .reduced_in = Dtype::float32,
       .overlaps = false,
       .balances_stages = true,
       .checkpoints_reentrant = true,
       .source = "nanotron optim/zero.py, parallel/data_parallel/utils.py, models/base.py"},
      {.name = "maxtext",
       .words = {"maxtext"},
       .sharded = Runtime::fsdp2,
       .fusion = KernelFusion::xla,
       .reduced_in = Dtype::float32,
       .micro_batch_tokens = 4 * 4096,
       .source = "maxtext src/maxtext/configs/models/gpu/llama2_7b.yml, base.yml (grad_dtype)"},
      {.name = "paxml",
       .words = {"JAX", "pax", "XLA"},
       .sharded = Runtime::fsdp2,
       .fusion = KernelFusion::xla,
       .checkpointing = "full",
       .float8 = {.casts = Float8Casts::delayed, .casts_weights = true},
       .source = "JAX-Toolbox rosetta/projects/pax, XLA's latency-hiding scheduler; praxis "
                 "fp8_ops.py (in_qdq: the scale comes from amax_history)"},
      {.name = "fms-fsdp",
       .words = {"fms-fsdp"},
       .sharded = Runtime::fsdp1,
       .uses_original_parameters = true,
       .selects_blocks = true,
       .source = "fms-fsdp fms_fsdp/policies/mixed_precision.py, ac_handler.py"},
      {.name = "flash-attention",
       .words = {"flash-attention"},
       .fusion = KernelFusion::by_hand,
       .optimizer = OptimizerImplementation::fused,
       .vocabulary_multiple = 8,
       .micro_batch_tokens = 8 * 2048,
       .source = "flash-attention training/configs/experiment/pile/gpt3*-flash.yaml "
                 "(pad_vocab_size_multiple)"},
      {.name = "transformers' Trainer",
       .words = {"QwenLM", "huggingface", "transformers", "torchtune"},
       .sharded = Runtime::fsdp1,
       .loss_in_model = true,
       .checkpointing = "full",
       .source = "transformers' Trainer; Qwen finetune/finetune_ds.sh (gradient_checkpointing)"},
      {.name = "PyTorch", .words = {}, .sharded = Runtime::fsdp1, .source = "PyTorch's defaults"}};
  return known;
}

struct StrategyWord {
  std::string_view word;
  ShardingStrategy sharding;
};
/// The first that stands in the strategy decides.
constexpr std::array<StrategyWord, 23> strategy_words{
    {{"hybrid_shard_zero2", ShardingStrategy::hybrid_shard_zero2},
     {"hybrid_shard", ShardingStrategy::hybrid_shard},
     {"HSDP", ShardingStrategy::hybrid_shard},
     {"in node, DP across", ShardingStrategy::hybrid_shard},
     {"SHARD_GRAD_OP", ShardingStrategy::shard_grad_op},
     {"ZeRO-2", ShardingStrategy::shard_grad_op},
     {"FULL_SHARD", ShardingStrategy::full_shard},
     {"ZeRO-3", ShardingStrategy::full_shard},
     {"ZeRO-1", ShardingStrategy::zero1},
     {"dist.optimizer", ShardingStrategy::zero1},
     {"dist. optimizer", ShardingStrategy::zero1},
     {"distributed optimizer", ShardingStrategy::zero1},
     {"FSDP", ShardingStrategy::full_shard},
     {"full shard", ShardingStrategy::full_shard},
     {"zero1", ShardingStrategy::zero1},
     {"ZeRO-0", ShardingStrategy::no_shard},
     // Measured on 2, 4 and 8 GPUs its steps take as long: states are sharded, as reductions grow.
     {"Megatron-DeepSpeed", ShardingStrategy::zero1},
     // ZeRO is an option, and off unless it is given (megatron/arguments.py).
     {"Megatron", ShardingStrategy::no_shard},
     {"NO_SHARD", ShardingStrategy::no_shard},
     {"DDP", ShardingStrategy::no_shard},
     {"data parallel", ShardingStrategy::no_shard},
     {"single GPU", ShardingStrategy::no_shard},
     {"single device", ShardingStrategy::no_shard}}};

}  // namespace

const TrainingStack& stack_of(const PublishedRow& row) {
  for (const TrainingStack& stack : stacks()) {
    const bool named = std::ranges::any_of(stack.words, [&](std::string_view word) {
      return has_word(row.source, word) || has_word(row.strategy, word);
    });
    if (named || stack.words.empty()) return stack;
  }
  return stacks().back();
}

std::optional<StatedSharding> stated_sharding(const PublishedRow& row) {
  for (const StrategyWord& known : strategy_words)
    if (has_word(row.strategy, known.word)) {
      StatedSharding result{.sharding = known.sharding};
      constexpr std::string_view over = "over ";
      const std::size_t at = row.strategy.find(over);
      if (at != std::string::npos)
        result.group = number_after(std::string_view(row.strategy).substr(at + over.size()), "");
      if (result.group == 0) result.group.reset();
      return result;
    }
  return std::nullopt;
}

}  // namespace shardscope
