// Choice: one way to train that the planner weighs, of any runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/native/native_training.h"
#include "core/pipeline/choice.h"
#include "core/pytorch/plans/runtime_request.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "core/pytorch/runtimes/training/training_setup.h"
#include "core/schedule/strategy.h"

namespace shardscope::planner {

/// What is gathered before it is asked for. native: all of them. fsdp1: backward_prefetch post or
/// pre; both: pre with forward_prefetch. fsdp2: pre. deepspeed: pre is overlap_comm, in stage 3
/// with the prefetch bucket, none neither of the two. ddp gathers nothing: none.
enum class Prefetch : std::uint8_t { none, post, pre, both };

/// What torchtitan's loop has inside a rank of the mesh: context x tensor ranks.
struct TorchtitanAxes {
  int context = 1;
  int tensor = 1;
  int experts = 0;  ///< ranks of mesh.shard over which experts are spread; 0: a dense model
  int ranks() const { return context * tensor; }
  bool operator==(const TorchtitanAxes&) const = default;
};

struct Choice {
  /// Of torchtitan's loop fsdp2.
  Runtime runtime = Runtime::native;
  /// deepspeed: no_shard to full_shard are stages 0 to 3, hybrid_shard is stage 3 whose second copy
  /// is shared by mesh.shard ranks (zero_hpz_partition_size).
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  /// pipeline x replicate x shard is the world, but for the axis tensor and torchtitan's axes
  Mesh mesh;
  int tensor = 1;           ///< fsdp2: neighbours that divide each layer by transformers' tp_plan
  PipelineChoice pipeline;  ///< native and torchtitan, where the mesh has a pipeline
  int blocks_per_unit = 1;  ///< gathered and reduced together; 0: the whole model is one unit
  Prefetch prefetch = Prefetch::none;
  std::int64_t batch = 1;  ///< sequences of a rank's micro-batch
  int micro_batches = 1;
  /// Of several: gradients are reduced in each, and only shards are kept between them.
  bool reduces_every_micro_batch = false;
  eager::CheckpointChoice checkpointing;
  Offload offload = Offload::none;
  TrainingPrecision precision = TrainingPrecision::bf16_mixed;
  std::optional<TorchtitanAxes> torchtitan = {};  ///< none: another loop, or fsdp2's pipelines
  bool operator==(const Choice&) const = default;
};

/// Every third block or fewer is checkpointed.
inline bool is_sparse(const eager::CheckpointChoice& checkpointing) {
  return checkpointing.every > 2;
}
inline bool is_pipelined(const Choice& choice) { return choice.mesh.pipeline > 1; }
/// The ranks that the choice is of.
inline int world_of(const Choice& choice) {
  return choice.mesh.world() * (choice.torchtitan ? choice.torchtitan->ranks() : choice.tensor);
}
inline int tensor_ranks(const Choice& choice) {
  return choice.torchtitan ? choice.torchtitan->tensor : choice.tensor;
}
inline int context_ranks(const Choice& choice) {
  return choice.torchtitan ? choice.torchtitan->context : 1;
}
/// Whether it trains a mixture of experts in torchtitan's loop.
inline bool has_experts(const Choice& choice) {
  return choice.torchtitan && choice.torchtitan->experts > 0;
}
/// The ranks over which they are spread.
inline int expert_ranks(const Choice& choice) {
  return has_experts(choice) ? choice.torchtitan->experts : 1;
}
/// "fsdp2"; of torchtitan's loop "torchtitan".
std::string_view runtime_name(const Choice& choice);
/// "replicate=1,shard=16,context=1,tensor=8", of a mixture ",expert=8" behind it; without
/// torchtitan the mesh's, and ",tensor=4" behind it where the choice has one.
std::string mesh_text(const Choice& choice);

std::string_view name_of(Prefetch prefetch);
/// What the runtime does unless it is told otherwise, as `simulate` predicts it.
Prefetch usual_prefetch(Runtime runtime, ShardingStrategy sharding);

/// "fsdp2 hybrid_shard 4 x 8, batch 2 x 4, checkpointing full, bf16_mixed": what differs from the
/// runtime's usual setting is said, the rest is not.
std::string text_of(const Choice& choice);
/// "fsdp2 hybrid_shard 4 x 8" (replicas x shards; "fsdp2 full_shard" where that says it all),
/// "native 1F1B pipeline of 4, full_shard inside" ("of 4 x 2": ranks x stages of each);
/// "torchtitan pipeline 4 x shard 8 x tensor 2"; "fsdp2 tensor 4, full_shard".
std::string strategy_text(const Choice& choice);
/// What text_of says beside it: "batch 8 x 2, bf16_mixed".
std::string settings_text(const Choice& choice);
/// Settings that differ from the runtime's usual ones: {"units of 4", "checkpointing full"}.
std::vector<std::string> unusual_settings(const Choice& choice);
/// "none", "full", "every:2", "selective".
std::string text_of(const eager::CheckpointChoice& choice);

/// What all choices of a plan have in common.
struct Training {
  std::int64_t length = 128;  ///< tokens of a sequence
  Optimizer optimizer;
  double clip = 0;  ///< largest gradient norm; 0: no clipping
  /// Of PyTorch's runtimes: batch, length, micro-batches, autocast and loss scaling are set by the
  /// choice.
  eager::TrainingSettings loop;
  eager::SessionSettings session;
  eager::ModelSettings model;
  /// The loop and Accelerator.prepare are accelerate's (core/config/configured_setup.h), so that
  /// its file of the same choice leads to the same figures.
  bool through_accelerate = false;
  /// Of PyTorch's runtimes: the model that choices are of has adapters.
  std::optional<eager::FineTuningSetup> fine_tuning = {};
  CompileScope compiled = CompileScope::none;  ///< of PyTorch's runtimes, and of torchtitan's
  /// Of torchtitan's mixtures: tokens of the busiest rank's experts, by the average.
  double expert_load = 1;
  /// torchao's recipe: of DDP, FSDP2 and torchtitan. FSDP2 gathers what is cast tensorwise.
  eager::parallel::Float8Recipe float8 = eager::parallel::Float8Recipe::none;
};

/// FSDP1's use_orig_params: a flat parameter without it is frozen or trained as a whole.
bool keeps_original_parameters(const Model& model);

/// Of PyTorch's runtimes and DeepSpeed. Throws as eager::requested_setup does.
eager::TrainingSetup training_setup(const Choice& choice, const Model& model,
                                    const Training& training);
/// What `eager::requested_setup` is asked for that.
RuntimeRequest runtime_request(const Choice& choice, const Model& model);

/// Of the native runtime. The strategy is resolved for the mesh's ranks. Throws Error where it
/// cannot run.
/// The native runtime's.
Prefetching native_prefetching(Prefetch prefetch);
Strategy native_strategy(const Choice& choice, const Model& model);
Workload native_workload(const Choice& choice, const Training& training);
/// Both of them, and the pipeline. `model` must outlive it.
NativeTraining native_training(const Choice& choice, const Model& model, const Training& training);

}  // namespace shardscope::planner
