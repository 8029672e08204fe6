// What the simulator says of a pipeline: a prediction for one rank of every stage.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/prediction.h"

namespace shardscope {

/// What of a pipeline its schedules do not say.
struct PredictedPipeline {
  std::string schedule;  ///< "1F1B"
  /// By rank of the pipeline.
  std::vector<std::vector<int>> stages;
  std::vector<int> layers;
};

/// `schedules` are those of one rank of each stage, in order, of the native runtime. Step time,
/// throughput and band are the same in all predictions: the stages are played together.
std::vector<Prediction> predict_pipeline(std::vector<Schedule> schedules,
                                         const PredictedPipeline& pipeline,
                                         const HardwareProfile& profile);

}  // namespace shardscope
