// What the simulator says of a scenario on a machine.
#pragma once

#include <optional>
#include <string>

#include "cli/scenario.h"
#include "core/schedule.h"
#include "sim/hardware_profile.h"
#include "traces/run_folder.h"
#include "traces/summary.h"
#include "traces/trace.h"

namespace shardscope {

struct Prediction {
  Schedule schedule;
  Trace trace;
  Summary summary;
  /// The operation that asks for memory that is not there.
  std::optional<OperationId> out_of_memory_at = {};
};

/// Simulates the scenario's rank; the step time's band is sim/band.h's.
Prediction predict(const Scenario& scenario, const HardwareProfile& profile);

/// Leaves summary and trace in the run folder's predicted/.
void write_prediction(const Prediction& prediction, std::string_view verb, const RunFolder& folder);

}  // namespace shardscope
