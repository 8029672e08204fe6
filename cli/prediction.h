// What the simulator says of a scenario on a machine.
#pragma once

#include <string_view>
#include <vector>

#include "cli/native_scenario.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/prediction.h"
#include "traces/run_folder.h"

namespace shardscope {

/// Deals layers out to stages where the job asks for predicted time or memory: the job has a list
/// of them then, and `assumed` says so. Throws Error where time is asked for and `profile` is null.
void deal_out_layers(NativeScenario& scenario, const HardwareProfile* profile);

/// Simulates the scenario's rank; of a pipeline with one rank of every other stage.
Prediction predict(const NativeScenario& scenario, const HardwareProfile& profile);

/// The same for one rank of every stage of a pipeline, in their order; else of the rank alone.
std::vector<Prediction> predict_stages(const NativeScenario& scenario,
                                       const HardwareProfile& profile);
/// Which of them is the scenario's rank's.
std::size_t own_stage(const NativeScenario& scenario);

/// Leaves the traces of all stages but `own` in the run folder's predicted/.
void write_stages(const std::vector<Prediction>& stages, std::size_t own, const RunFolder& folder);

/// Leaves summary, trace and buffers in the run folder's predicted/.
void write_prediction(const Prediction& prediction, std::string_view verb, const RunFolder& folder);

}  // namespace shardscope
