// A plan's question resolved: model, machine, what is left open, and the training of the file that
// was given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/hardware_choice.h"
#include "cli/plan_options.h"
#include "cli/prediction.h"
#include "cli/pytorch_scenario.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/native/job.h"
#include "sim/planner/choice.h"
#include "sim/planner/enumerate.h"
#include "sim/planner/written_choice.h"

namespace shardscope {

struct PlanInputs {
  HardwareChoice hardware;
  Job job;
  Model model;
  JsonValue config;  ///< the config.json; an empty object where only native is asked
  planner::Question question;
  std::optional<PytorchScenario> given;  ///< of --accelerate or --deepspeed
  std::string given_name;                ///< the file's
  AllocatorSettings allocator;           ///< of PyTorch's runtimes
  std::optional<Bytes> margin;           ///< of a device that stays free; none: memory not known
  std::vector<std::string> assumed;
};

/// Throws Error naming option, key or file.
PlanInputs resolve_plan(const PlanOptions& options);

/// What the question leaves open on `world` ranks and --strategy does not rule out, and what was
/// not asked for.
planner::Enumeration choices_of(const PlanInputs& inputs, const PlanOptions& options, int world);

/// As `simulate` predicts it.
Prediction predict(const planner::Choice& choice, const PlanInputs& inputs);

/// Devices of one node.
int ranks_per_node(const PlanInputs& inputs);

/// For the file of one of its choices.
planner::WrittenFrom written_from(const PlanInputs& inputs);

}  // namespace shardscope
