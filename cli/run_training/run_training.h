// The training under PyTorch that a run folder is of, as `simulate --job` resolves it.
#pragma once

#include <optional>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/native/job.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/planner/choice.h"
#include "sim/planner/pytorch_training.h"
#include "traces/run_folder.h"

namespace shardscope {

struct RunTraining {
  Job job;
  Model model;       ///< as it is trained: with adapters, where there are any
  JsonValue config;  ///< the config.json that it was made from
  planner::PytorchTraining training;
  planner::Choice choice;    ///< that comes nearest to the training
  planner::Training shared;  ///< what other choices of the same training have in common with it
  bool is_of_file = false;   ///< a file of another program says how it shards
};

/// On a machine, which may be another one than the run's. Throws Error naming key or file.
RunTraining training_of_run(const RunFolder& folder, const HardwareProfile& machine);

/// What loading and losses find free on the machine's GPU. `model`: as it is trained.
void apply_free_memory(const HardwareProfile& machine, const Model& model,
                       std::optional<eager::FineTuningSetup>& tuning);

}  // namespace shardscope
