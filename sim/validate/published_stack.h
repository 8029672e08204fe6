// Training stacks whose runs are published: what each does where a row does not say.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/schedule/strategy.h"
#include "sim/kernels/float8.h"
#include "sim/kernels/fusion.h"
#include "sim/validate/published_row.h"

namespace shardscope {

struct TrainingStack {
  std::string_view name;                ///< "composer"
  std::vector<std::string_view> words;  ///< of source or strategy; none: any other stack
  Runtime sharded = Runtime::fsdp1;     ///< that shards parameters
  Runtime replicated = Runtime::ddp;    ///< that shards optimizer states at most
  KernelFusion fusion = KernelFusion::none;
  CompileScope compiled = CompileScope::none;  ///< of torch.compile; none: whatever a lane runs
  eager::OptimizerImplementation optimizer = eager::OptimizerImplementation::foreach;
  std::optional<Dtype> reduced_in = {};  ///< gradients; absent: what is computed in
  bool reduces_every_micro_batch = false;
  bool overlaps = true;                 ///< reductions of replicated parameters, with the backward
  bool owns_whole_tensors = false;      ///< under ZeRO-1, instead of equal parts
  bool backward_prefetch_late = false;  ///< FSDP1's BACKWARD_POST
  bool uses_original_parameters = false;
  bool loss_in_model = false;
  std::int64_t vocabulary_multiple = 1;  ///< that it fills the vocabulary up to
  /// Tokens, where the row does not say; 0: not known. Each tensor-parallel rank has the same whole
  /// number of them. The remainder is left out.
  std::int64_t vocabulary = 0;
  int metric_losses = 0;  ///< further losses of every micro-batch, for its log
  std::optional<AttentionLibrary> attention = {};  ///< that stands behind "flash"
  bool updates_as_megatron = false;  ///< replicated parameters (sim/megatron/update.h)
  /// In the order of DeepSpeed's engine, which sums gradients of bfloat16 up in float32.
  bool pipelines_by_deepspeed = false;
  bool sums_everywhere = false;  ///< gradients under ZeRO-1: MegatronUpdate::sums_everywhere
  /// It does so only in runs where embedding and head count as layers of a stage each.
  bool sums_up_with_counted_embeddings = false;
  bool reads_batch_sizes = false;  ///< from the device, before each micro-batch
  /// Runs on more GPUs than this have CUDA_LAUNCH_BLOCKING=1; 0: none has.
  std::int64_t most_gpus_without_blocking = 0;
  bool unfused_loss = false;     ///< (sim/megatron/unfused_loss.h)
  bool balances_stages = false;  ///< of a pipeline, by the work of blocks and head
  /// Of tensor parallelism (sim/megatron/tensor_parallel.h).
  bool divides_sequence = false;
  bool overlaps_sums = false;
  bool tokens_come_second = false;
  bool traces_ring = false;  ///< ring attention is part of what torch.compile traces
  double dropout = 0;
  bool eager_attention = false;             ///< where the row does not say
  bool torchtitan_attention = false;        ///< ModelSettings has it
  std::string_view checkpointing = "none";  ///< where the row does not say
  std::string_view full = "full";           ///< what its full checkpointing runs again
  /// Full checkpointing by a function of its own, which runs a block again to its end.
  bool checkpoints_reentrant = false;
  /// Selective checkpointing is of whole blocks: of every second one, or of all where what they
  /// keep is more than a device has.
  bool selects_blocks = false;
  /// Selective checkpointing runs attention's core again, and nothing else.
  bool selects_attention = false;
  /// Each expert takes a fixed number of tokens, its even share. Empty places are padded.
  bool pads_experts = false;
  std::int64_t micro_batch_tokens = 0;  ///< where it does not say; 0: not known
  /// How it trains in 8 bits where the row does not say; none: not known.
  Float8Kernels float8 = {};
  /// A pipeline has as many micro-batches as ranks where the row does not say.
  bool micro_batch_a_rank = false;
  std::string_view source;  ///< where that stands
};

/// By words of source and strategy; the last, which has none, stands for whatever else there is.
const TrainingStack& stack_of(const PublishedRow& row);

/// What of the training is sharded, by the words of the strategy.
struct StatedSharding {
  ShardingStrategy sharding = ShardingStrategy::no_shard;
  std::optional<int> group;  ///< ranks that states are sharded over, where that is not all
  bool operator==(const StatedSharding&) const = default;
};
/// None where the words name no strategy that is known.
std::optional<StatedSharding> stated_sharding(const PublishedRow& row);

}  // namespace shardscope
