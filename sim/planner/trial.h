// A choice tried out on a machine: its step time, and what of memory follows from the host's order.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "core/format/json_reader.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/simulate.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/planner/choice.h"
#include "sim/planner/pytorch_training.h"

namespace shardscope::planner {

class Findings;
class MeshRecordings;

/// What all trials have in common. Everything must outlive them.
struct TrialInputs {
  const Model& model;
  const JsonValue& config;  ///< the config.json that the model was made from
  const Training& training;
  const HardwareProfile& profile;
  const CostModel& costs;
  const Target& native_target;       ///< what the native runtime's device asks of its schedules
  AllocatorSettings allocator = {};  ///< of PyTorch's runtimes
  Bytes margin = {};                 ///< of a device's memory that has to stay free
  Findings* findings = nullptr;  ///< shared by searches over the same inputs; none: no estimates
  std::optional<Bytes> host_memory = {};  ///< of a node; none: not checked
  MeshRecordings* recordings = nullptr;   ///< that trials share; none: those of the findings
  /// Of a model that was cut to so many `blocks`: the whole one, of which torchtitan's is made.
  const Model* uncut = nullptr;
  int blocks = 0;
};

/// The choice under its runtime of PyTorch, not of torchtitan. Throws as `training_setup` does.
PytorchTraining pytorch_training(const Choice& choice, const TrialInputs& inputs);

/// What a node keeps of a choice's model states in the host's memory, without staging buffers and
/// padding; 0 where nothing is offloaded.
Bytes host_memory_of_node(const Choice& choice, const TrialInputs& inputs);

/// The choice's schedule on rank 0: of the native runtime (of a pipeline its first stage), or with
/// a host program. Throws Error, and Refusal where the real library raises. `steps`: of PyTorch's
/// runtimes, see recorded_schedule. A `stop` ends the recording with Error
/// (ExitCode::interrupted).
Schedule schedule_of(const Choice& choice, const TrialInputs& inputs,
                     const eager::RecordedSteps& steps = {}, const std::stop_token& stop = {});

/// Of the native runtime: the arena. Else what tensors take at the highest, in blocks of 512 bytes,
/// whatever the device's speed; the caching allocator holds at least as much.
Bytes allocated_peak(const Schedule& schedule);

struct Trial {
  Accounting time;  ///< of the steady step
  Bytes allocated;  ///< see `allocated_peak`
  Bytes outside;    ///< of the process, beside its allocator or arena
  /// Of a pipeline up to its first rank that does not fit the device, by its tensors or by what
  /// the allocator holds of them: no time, and as much memory at least.
  bool is_part = false;
  Bytes needed() const { return allocated + outside; }
};

/// Plays the steady step without the allocator. Of many micro-batches three are recorded, and the
/// one in the middle stands for those like it. Throws as `schedule_of` does.
Trial try_out(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop = {});

/// What a schedule says that is played with the allocator, on the memory that the device has beside
/// what lies outside. Of many micro-batches it has three: memory is the same from there on, the
/// step's time is the trial's.
struct FullSimulation {
  Bytes reserved;  ///< at the highest; of the native runtime its arena
  Bytes outside;
  bool fits = true;      ///< and leaves the margin
  bool is_part = false;  ///< of the first step alone
  Bytes margin = {};     ///< that should stay free, where that is more than the inputs' margin
};
/// What the inputs' findings have as unfit is not played. They keep what was recorded whole.
/// Where the first step under PyTorch does not fit, the figures are those up to its end. A `stop`
/// ends the recording, as schedule_of's, but of pipelines, the native runtime and torchtitan.
FullSimulation simulate_fully(const Choice& choice, const TrialInputs& inputs,
                              const std::stop_token& stop = {});

/// The choice's schedule with all steps: what the inputs' findings keep of it, which they let go,
/// or else recorded: `listener`, if any, is told as it grows, and may end it by throwing. A `stop`
/// ends the recording, as simulate_fully's.
Schedule recording_of(const Choice& choice, const TrialInputs& inputs,
                      const std::stop_token& stop = {}, eager::ProgramListener* listener = nullptr);

/// Lets the inputs' findings have a recording again, as `recording_of` gave it.
void give_back(const Choice& choice, const TrialInputs& inputs, Schedule schedule);

}  // namespace shardscope::planner
