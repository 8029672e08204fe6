// A pipeline as Megatron's and its relatives' schedules run it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/quantities.h"
#include "core/pipeline/program.h"
#include "core/schedule/schedule.h"
#include "sim/engine/pipeline_timeline.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/trace.h"

namespace shardscope {

struct MegatronPipeline {
  int ranks = 1;
  int stages_per_rank = 1;
  bool by_deepspeed = false;  ///< in the order of its engine
  std::vector<int> layers;    ///< by stage
  /// Layers of the model that is played for a stage: those of the stage that has most.
  int played_layers = 1;
  Bytes activation;       ///< that a stage sends, of a micro-batch
  Bytes shared_gradient;  ///< of a tied embedding, summed over first and last stage; 0: none
  /// Tensor-parallel ranks among which DeepSpeed's stages divide what they send: each sends a part
  /// behind a message with its shape, and the receiving ones gather the parts. Source: deepspeed
  /// runtime/pipe/engine.py (is_pipe_partitioned, is_grad_partitioned), runtime/utils.py
  /// (PartitionedTensor).
  int divided_over = 1;
  int rank_distance = 1;  ///< of neighbours in the pipeline: ranks that share a stage
};

/// Where layers do not divide over stages, but would with two more, embedding and head stand for a
/// layer each. Source: Megatron-LM core/transformer/transformer_block.py
/// (account_for_embedding_in_pipeline_split); Megatron-DeepSpeed megatron/model/gpt_model.py
/// (partition_method "type:transformer|embedding").
std::vector<int> equal_layers(std::int64_t layers, int stages);
/// Whether layers divide among stages with embedding and head as a layer each, and not without.
bool divide_with_ends(std::int64_t layers, std::int64_t stages);

/// What each rank does: DeepSpeed's order where the stack goes by it; interleaved 1F1B where a rank
/// has several stages; else Megatron's 1F1B, which takes any number of micro-batches. Source:
/// Megatron-LM core/pipeline_parallel/schedules.py,
/// forward_backward_pipelining_without_interleaving.
std::vector<PipelineProgram> megatron_programs(const MegatronPipeline& pipeline, int micro_batches);

/// What a forward or a backward takes on one rank that has a stage's layers, embedding and head.
struct PassParts {
  Duration before;  ///< of the embedding
  Duration blocks;
  Duration behind;  ///< of the head
};
struct StageParts {
  PassParts forward, backward;
};
/// Of one micro-batch in the steady step of `stage`: of the last but one where there are several,
/// because the last one reduces.
StageParts stage_parts(const Schedule& stage, const HardwareProfile& profile);

/// A step of a pipeline as it was played.
struct PlayedPipeline {
  std::vector<std::vector<PlayedAction>> ranks;
  Accounting forward, backward;  ///< of a micro-batch, of the stage that was played
  Duration last_end;             ///< of the last backward of all
  /// From there to the end of the step: reductions that nothing hides, norm, update. Where an
  /// update was given it is all of that, and no accounting.
  Duration update;
  Accounting updated;
  Duration shared_gradient;  ///< of a tied embedding
  Duration step;
};

/// The step of a pipeline from a training of one stage's layers with embedding and head on one
/// rank: `stage` is its schedule, of `micro_batches` at most. `update`, if it is given, takes the
/// place of what the schedule does after its last backward.
PlayedPipeline play_pipeline(const MegatronPipeline& pipeline, const Schedule& stage,
                             int micro_batches, const HardwareProfile& profile,
                             std::optional<Duration> update = {});
/// Its step time alone.
Duration pipelined_step(const MegatronPipeline& pipeline, const Schedule& stage, int micro_batches,
                        const HardwareProfile& profile, std::optional<Duration> update = {});

}  // namespace shardscope
