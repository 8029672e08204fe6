// What What-if starts from: a run's own job, model and machine.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_training/run_training.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/native/job.h"
#include "core/schedule/target.h"
#include "gui/data/scenario.h"
#include "gui/data/what_if_settings.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope::gui {

struct WhatIfInputs {
  std::string label;             ///< of the scenario
  std::filesystem::path folder;  ///< the run's
  Job job;
  Model model;
  std::optional<JsonValue> config;  ///< the config.json of the model, which PyTorch's runtimes need
  HardwareProfile machine;          ///< the run's own
  Target target;                    ///< of the run's own machine, see `measured_target`
  /// Kernels whose scratch on that machine is known, by `cost_key`.
  std::vector<Kernel> measured_kernels;
  WhatIfSettings start;               ///< the run's own settings
  std::optional<Duration> predicted;  ///< the run's own prediction of its step
  std::vector<std::string> notes;     ///< what had to be assumed, for people
  /// Of PyTorch's runtimes: the run's training itself, which says more than a choice does. None of
  /// torchtitan's.
  std::shared_ptr<const RunTraining> own = {};
};
using WhatIfInputsPointer = std::shared_ptr<const WhatIfInputs>;

/// Reads job.json, hardware.json and the model that the run folder names. Throws Error where the
/// scenario is no run of ours, or one of them is missing.
WhatIfInputsPointer what_if_inputs(const Scenario& scenario);

/// The scratch that a run's device wanted for its kernels, as the run's predicted trace shows it:
/// of kernels that the run had not, none. Which neighbouring operators the device ran as one kernel
/// follows from the operations' names. `is_complete`: the trace shows the schedule's own
/// operations.
struct MeasuredTarget {
  Target target;
  std::vector<Kernel> kernels;  ///< of the run, by `cost_key`
  bool is_complete = false;
};
MeasuredTarget measured_target(const Model& model, const Strategy& strategy,
                               const Workload& workload, HostRole host, const Trace& predicted);

}  // namespace shardscope::gui
