// A training under PyTorch with everything decided, its schedule, and what the simulator says of
// it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "core/pytorch/runtimes/training/training_setup.h"
#include "core/schedule/schedule.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/prediction.h"

namespace shardscope::planner {

/// What runtime, loop and allocator are told, and how a summary calls it.
struct PytorchTraining {
  eager::TrainingSetup setup;
  Runtime runtime = Runtime::fsdp1;
  std::string strategy;   ///< "full_shard"
  std::string precision;  ///< "bf16_mixed"
  AllocatorSettings allocator;
  std::vector<std::string> assumed;
};

/// Of set-up and `steps`, on the rank of the setup. `config`: the config.json that the model was
/// made from. `listener`, if any, is told as it grows. Throws as eager::recorded_schedule does.
Schedule schedule_of(const PytorchTraining& training, const Model& model, const JsonValue& config,
                     const eager::RecordedSteps& steps = {},
                     eager::ProgramListener* listener = nullptr);

/// Simulates the training's schedule, compiled where the setup says so, with host thread and
/// caching allocator. `with_band`: as
/// PredictedRun's.
Prediction predict(Schedule schedule, const PytorchTraining& training, const Model& model,
                   const HardwareProfile& profile, bool with_band = true);

}  // namespace shardscope::planner
