// torchtitan's Llama under FSDP2 with tensor and context parallelism, or cut into stages under
// torch.distributed.pipelining.
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/pytorch/parallel/recorded_training.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/planner/pipeline_costs.h"
#include "sim/planner/trial.h"
#include "sim/prediction/pipeline_prediction.h"

namespace shardscope::planner {

/// FSDP2 reduces gradients in this dtype, whatever that of the parameters is. Source: torchtitan
/// 018740b, config/job_config.py (mixed_precision_reduce, of which it has no other value) and
/// models/llama3/infra/parallelize.py (apply_fsdp).
inline constexpr Dtype torchtitan_reduce_dtype = Dtype::float32;

/// What torchtitan's loop follows from, whoever asks: a choice of a plan, or options.
struct TorchtitanJob {
  const Model& model;
  std::vector<eager::parallel::MeshAxis> mesh;  ///< with an axis pp in front, or without
  std::int64_t batch = 1;                       ///< sequences of a rank's micro-batch
  std::int64_t length = 1;
  int micro_batches = 1;
  bool reshards = true;  ///< parameters are let go after forward
  bool clips = false;
  TrainingPrecision precision = TrainingPrecision::fp32;
  eager::OptimizerSettings optimizer;
  eager::CheckpointChoice checkpointing;
  PipelineChoice pipeline;  ///< of an axis pp
  eager::parallel::Float8Recipe float8 = eager::parallel::Float8Recipe::none;
  /// Of a mixture of experts, or of torchtitan 0.3's layers: what the model was made from.
  const JsonValue* config = nullptr;
  bool asks_layers_of_0_3 = false;  ///< of torchtitan 0.3, for a dense model
  int expert_ranks = 1;             ///< of shard, context and tensor: experts are spread over them
  double expert_load = 1;           ///< tokens of the busiest of these ranks, by the average

  /// Mixtures of experts always have them.
  bool has_layers_of_0_3() const;
};
/// Sequence and loss parallel, and the stages of an axis pp; or a mixture of experts. Throws Error
/// where the model is none of torchtitan's, or naming the option of its pipeline.
eager::parallel::ParallelSettings torchtitan_settings(const TorchtitanJob& job);

/// Without an axis pp it is of one stage.
struct TorchtitanPipeline {
  eager::parallel::ParallelSettings settings;  ///< with an axis pp in front, if any
  eager::parallel::RankPlace place;
  eager::SessionSettings session;
  std::string strategy, precision;
  AllocatorSettings allocator = {};
  std::vector<std::string> assumed = {};
  CompileScope compiled = CompileScope::none;
};

/// Of a choice of torchtitan, or of fsdp2 with a pipeline. torchtitan's loop: fused AdamW, loss
/// outside of the model, cuDNN's attention. Throws Error where the model is no Llama of
/// torchtitan's.
TorchtitanPipeline torchtitan_pipeline(const Choice& choice, const TrialInputs& inputs);

/// How a rank is recorded.
struct RankRecording {
  std::span<const char* const> steps = eager::parallel::recorded_steps;
  std::stop_token stop = {};  ///< ends it with Error (ExitCode::interrupted)
  std::vector<eager::parallel::RecordedChunk>* chunks = nullptr;  ///< see recorded_training
  eager::ProgramListener* listener = nullptr;  ///< told as it grows; may end it by throwing
};
/// Of one of the ranks that share a rank of the pipeline, compiled where it is.
Schedule schedule_of_rank(const TorchtitanPipeline& pipeline, int rank,
                          const RankRecording& recording = {});
/// The same of each rank of the pipeline, in order. A `stop` as above.
std::vector<Schedule> schedules_of_stages(
    const TorchtitanPipeline& pipeline,
    std::span<const char* const> steps = eager::parallel::recorded_steps,
    const std::stop_token& stop = {});

/// What the parts of a micro-batch cost on one rank that shares nothing but its blocks (an axis
/// tensor), with what it waits for that, from stages of one and of two blocks: all blocks are
/// alike. Head and loss are the last stage's.
ModelCosts torchtitan_costs(const Choice& choice, const TrialInputs& inputs);

/// Of the schedule of its one stage.
Prediction predict_alone(Schedule schedule, const TorchtitanPipeline& pipeline,
                         const HardwareProfile& profile, bool with_band = true);

/// By rank of the pipeline. A `stop` as above.
std::vector<Prediction> predict_stages(const TorchtitanPipeline& pipeline,
                                       const HardwareProfile& profile, bool with_band = true,
                                       const std::stop_token& stop = {});

struct StagesWithMoves {
  std::vector<Prediction> stages;  ///< by rank of the pipeline
  StepTimeMoves moves;             ///< of all of them together
};
/// Of stages that were predicted without a band.
StepTimeMoves moves_of_stages(std::vector<Prediction> stages, const HardwareProfile& profile);
StagesWithMoves predict_stages_with_moves(const TorchtitanPipeline& pipeline,
                                          const HardwareProfile& profile,
                                          const std::stop_token& stop = {});

/// Why torchtitan has no such ranks inside a stage, or they are not predicted; empty: they are.
std::string why_not_in_torchtitan(const Mesh& mesh, TrainingPrecision precision);

}  // namespace shardscope::planner
