// What the simulator says of a scenario on a machine.
#pragma once

#include <optional>
#include <string>

#include "cli/run_folder.h"
#include "cli/scenario.h"
#include "core/schedule.h"
#include "sim/hardware_profile.h"
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

/// Simulates the scenario's rank. The step time's lower bound is that of a machine on which
/// communication and compute do not slow each other down, the upper bound that of one on which they
/// never overlap.
Prediction predict(const Scenario& scenario, const HardwareProfile& profile);

/// Factors on the step time for its bounds.
struct StepTimeBounds {
  double low_factor = 1;
  double high_factor = 1;
};
/// `accounting` is that of the step on this profile.
StepTimeBounds step_time_bounds(const Schedule& schedule, HardwareProfile profile,
                                const Accounting& accounting);

/// Leaves summary and trace in the run folder's predicted/.
void write_prediction(const Prediction& prediction, std::string_view verb, const RunFolder& folder);

}  // namespace shardscope
