// What `shardscope model` says: the model, and what a runtime makes of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/native_scenario.h"
#include "core/pytorch/plans/sharding_plan.h"
#include "core/schedule/model_states.h"

namespace shardscope {

struct ModelReport {
  Model model;
  ModelStates whole;                 ///< model states of one device that holds everything
  std::optional<ShardingPlan> plan;  ///< none: nothing was asked that this model could answer
  std::vector<std::string> assumed;
};

/// The native runtime's units and bytes. Throws Error where it cannot run the model.
ModelReport report_native(NativeScenario scenario);

/// The model alone: float32 throughout with the optimizer's states, on one device.
ModelReport report_model(Model model, const Optimizer& optimizer, std::vector<std::string> assumed);

/// The report as `model --json` prints it (docs/cli.md).
std::string to_json(const ModelReport& report);

}  // namespace shardscope
