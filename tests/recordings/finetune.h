// The parts of the kind `finetune`.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/pytorch/engine/session.h"
#include "core/pytorch/runtimes/training/training_run.h"

namespace shardscope::recordings {

/// A case of ../shared/data/pytorch/finetune as record.py sets it up.
struct FineTuneCase {
  /// Settings with the recorder's defaults under them.
  explicit FineTuneCase(const nlohmann::ordered_json& given);

  nlohmann::ordered_json settings;
  JsonValue config;
  Model model;
  eager::TrainingSetup setup;
};

/// describe(): what the model holds after the adapter, before it is sharded.
nlohmann::ordered_json described_model(const FineTuneCase& recorded);

/// Everything that one process of record.py wrote down of a case. `bare` is without workspaces.
nlohmann::ordered_json played_finetune(const FineTuneCase& recorded, bool bare);

}  // namespace shardscope::recordings
