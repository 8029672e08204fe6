// The training of a published fine-tuning run: what its row says, and what its source says of all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/megatron/settings.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/runtimes/training/training_setup.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/planner/pytorch_training.h"
#include "sim/validate/fine_tuning_row.h"

namespace shardscope {

struct FineTuningScenario {
  planner::PytorchTraining training;
  Model model;  ///< as it is trained: with adapters, where there are any
  JsonValue config = JsonValue::parse("{}", "");
  HardwareProfile profile;
  /// A quantised base that no device holds whole while it is loaded: its layers come one by one.
  bool loads_in_shards = false;
  /// Tokens of a sample whose rate is asked for, where the longest are played; 0: the same.
  std::int64_t mean_length = 0;
  Bytes device_data;  ///< held beside the training; not in `profile`'s memory any more
  /// Megatron-LM trains `config`'s model; only config, profile and world are then filled in beside.
  std::optional<megatron::Settings> megatron = {};
};

/// Why the row is no run that can be predicted: "no memory is stated"; "" where it can.
std::string why_not_predicted(const FineTuningRow& row);

/// The row must be one that can be predicted. Throws Error and Refusal as the libraries do.
FineTuningScenario fine_tuning_scenario(const FineTuningRow& row);

}  // namespace shardscope
