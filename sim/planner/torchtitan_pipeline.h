// Pipelines of PyTorch: torchtitan's Llama cut into stages under torch.distributed.pipelining, with
// FSDP2 inside a stage.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/pytorch/parallel/recorded_training.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/planner/pipeline_costs.h"
#include "sim/planner/trial.h"
#include "sim/prediction/pipeline_prediction.h"

namespace shardscope::planner {

struct TorchtitanPipeline {
  eager::parallel::ParallelSettings settings;  ///< with an axis pp in front
  eager::parallel::RankPlace place;
  eager::SessionSettings session;
  std::string strategy, precision;
  AllocatorSettings allocator = {};
  std::vector<std::string> assumed = {};
};

/// The schedules that are predicted: those with one stage a rank. Throws Error naming `where`.
eager::parallel::PipelineSchedule torchtitan_schedule(PipelineScheduleKind kind,
                                                      std::string_view where);

/// Of a choice of fsdp2 with a pipeline. torchtitan's loop: fused AdamW, loss outside of the model,
/// cuDNN's attention. Throws Error where the model is no Llama of torchtitan's.
TorchtitanPipeline torchtitan_pipeline(const Choice& choice, const TrialInputs& inputs);

/// Of one rank of every stage, in order.
std::vector<Schedule> schedules_of_stages(
    const TorchtitanPipeline& pipeline,
    std::span<const char* const> steps = eager::parallel::recorded_steps);

/// What the parts of a micro-batch cost on one rank that shares with nobody, from stages of one and
/// of two blocks: all blocks are alike. Head and loss are the last stage's.
ModelCosts torchtitan_costs(const Choice& choice, const TrialInputs& inputs);

/// By rank of the pipeline.
std::vector<Prediction> predict_stages(const TorchtitanPipeline& pipeline,
                                       const HardwareProfile& profile, bool with_band = true);

/// Why torchtitan has no such ranks inside a stage, or they are not predicted; empty: they are.
std::string why_not_in_torchtitan(const Mesh& mesh, TrainingPrecision precision);

}  // namespace shardscope::planner
