// What the simulator says of a pipeline: a prediction for one rank of every stage.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/band.h"
#include "sim/prediction/prediction.h"

namespace shardscope {

/// What of a pipeline its schedules do not say.
struct PredictedPipeline {
  std::string schedule;  ///< "1F1B"
  /// By rank of the pipeline.
  std::vector<std::vector<int>> stages;
  std::vector<int> layers;
};

/// How much the step of all stages together is off, see band.h. `schedules` as below.
StepTimeMoves step_time_moves(std::span<const Schedule> schedules, const HardwareProfile& profile);

/// `schedules` are those of one rank of each stage, in order, of the native runtime. Step time,
/// throughput and band are the same in all predictions: the stages are played together.
std::vector<Prediction> predict_pipeline(std::vector<Schedule> schedules,
                                         const PredictedPipeline& pipeline,
                                         const HardwareProfile& profile);
/// `moves`: `step_time_moves` of the schedules.
std::vector<Prediction> predict_pipeline(std::vector<Schedule> schedules,
                                         const PredictedPipeline& pipeline,
                                         const HardwareProfile& profile,
                                         const StepTimeMoves& moves);

/// The same of schedules with host programs, recorded on one rank of each place in the pipeline.
/// `run` is of all of them. Each rank is played with its allocator, and waits for the others where
/// they meet (sim/engine/peer_arrivals.h). The step time of all of them is that of the rank that
/// takes longest, and so is the band where `run` asks for one.
std::vector<Prediction> predict_recorded_pipeline(std::vector<Schedule> schedules,
                                                  const PredictedRun& run,
                                                  const PredictedPipeline& pipeline,
                                                  const HardwareProfile& profile);
/// `moves`: `step_time_moves_of_recorded` of the schedules.
std::vector<Prediction> predict_recorded_pipeline(std::vector<Schedule> schedules,
                                                  const PredictedRun& run,
                                                  const PredictedPipeline& pipeline,
                                                  const HardwareProfile& profile,
                                                  const StepTimeMoves& moves);
/// How much the step of all ranks together is off, see band.h. Throws Error where they wait for
/// each other without end.
StepTimeMoves step_time_moves_of_recorded(std::span<const Schedule> schedules,
                                          const HardwareProfile& profile);
/// The step time of the rank that takes longest, on devices that never run out of memory. Throws
/// Error as above.
Duration step_of_recorded_pipeline(std::span<const Schedule> schedules,
                                   const HardwareProfile& profile);

}  // namespace shardscope
