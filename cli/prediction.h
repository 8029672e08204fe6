// What the simulator says of a scenario on a machine.
#pragma once

#include <string_view>

#include "cli/native_scenario.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/prediction.h"
#include "traces/run_folder.h"

namespace shardscope {

/// Simulates the scenario's rank; of a pipeline with one rank of every other stage.
Prediction predict(const NativeScenario& scenario, const HardwareProfile& profile);

/// Leaves summary, trace and buffers in the run folder's predicted/.
void write_prediction(const Prediction& prediction, std::string_view verb, const RunFolder& folder);

}  // namespace shardscope
