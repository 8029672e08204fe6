// A recorded training case, run by our own trainer.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/native/job.h"
#include "tests/recordings/training_variant.h"

namespace shardscope::recordings {

struct TrainingResult {
  std::vector<double> loss, gradient_norm, learning_rate;  ///< by step
  std::map<std::string, std::vector<float>> parameters;    ///< at the end, by name
};

/// The job of a case (case.json with its defaults filled in). `root` is the folder with models and
/// tokens.
Job training_job(const std::filesystem::path& root, const nlohmann::ordered_json& recorded_case);

/// Trains in processes of its own, in the checking mode, over shared memory; or, where another
/// device was asked for, as one rank in this process on that device. Throws Error where a rank
/// failed.
TrainingResult run_training(Job job, const OwnRun& run);

}  // namespace shardscope::recordings
