// Pipelined choices tried out: one rank of every stage, played together. Of the native runtime, or
// of fsdp2 as torchtitan runs them (sim/planner/torchtitan_pipeline.h).
#pragma once

#include <vector>

#include "sim/planner/choice_prediction.h"
#include "sim/planner/trial.h"
#include "sim/prediction/pipeline_prediction.h"

namespace shardscope::planner {

/// Throws Error or Refusal where that is no pipeline that the native runtime can run.
PredictedPipeline predicted_pipeline(const NativeTraining& training);

/// Of the first rank of every stage, in order; of the native runtime. Throws Error, and Refusal
/// where PyTorch refuses the pipeline.
std::vector<Schedule> schedules_of_stages(const Choice& choice, const TrialInputs& inputs);

/// A `stop` ends the recordings of torchtitan's with Error (ExitCode::interrupted).
///
/// The step of all stages together, and what lives at the highest on the rank that needs most: its
/// arena takes at least as much. Of `time` the span alone is set: its parts differ from rank to
/// rank. Throws as `schedules_of_stages`.
Trial try_pipeline(const Choice& choice, const TrialInputs& inputs,
                   const std::stop_token& stop = {});
/// Of the rank that needs most memory; `fits` is about all of them.
FullSimulation simulate_pipeline(const Choice& choice, const TrialInputs& inputs,
                                 const std::stop_token& stop = {});
/// Its `fits` alone, in less time.
bool pipeline_fits(const Choice& choice, const TrialInputs& inputs);

/// As `predict_stages` of `simulate`, by rank of the pipeline.
std::vector<Prediction> predict_stages(const Choice& choice, const TrialInputs& inputs);
/// Of the rank that needs most memory.
ChoiceFigures figures_of_pipeline(const Choice& choice, const TrialInputs& inputs,
                                  const std::stop_token& stop = {});

}  // namespace shardscope::planner
