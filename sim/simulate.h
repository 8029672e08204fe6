// A schedule played on a machine that is only a profile: the predicted trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/schedule.h"
#include "sim/allocator/caching_allocator.h"
#include "sim/engine.h"
#include "sim/hardware_profile.h"
#include "traces/intervals.h"
#include "traces/trace.h"

namespace shardscope {

/// Memory of one step of a host program.
struct StepMemory {
  Bytes peak_allocated, peak_active, peak_reserved;
  CategoryBytes at_peak;     ///< allocated, in blocks
  CategoryBytes maximum;     ///< of each category by itself
  OperationId at_operation;  ///< the last one issued before the peak of `allocated`
  std::int64_t retries = 0;  ///< requests tried again after the cache had been given back
};

/// One step of a host program: it lasts from the end of the step before on the device to its own.
struct SimulatedStep {
  std::string label;
  TimeWindow window;  ///< in the trace; empty where the step was not reached
  Accounting accounting;
  StepMemory memory;
};

/// torch.OutOfMemoryError, and what ran before it.
struct RunsOutOfMemory {
  std::string step;       ///< "setup", or a step's label
  OperationId operation;  ///< that asks for it; none: of no operation
  std::string name;       ///< of what is asked for
  Bytes requested;
  AllocatorStatistics at_failure;
  std::string message;  ///< PyTorch's words
};

struct Simulation {
  Trace trace;                            ///< predicted; time 0 is the start of the first step
  Accounting accounting;                  ///< over the step that repeats; `span` is the step time
  std::vector<SimulatedStep> steps = {};  ///< of a host program
  std::optional<RunsOutOfMemory> out_of_memory = {};
};

/// The caching allocator and its device's memory, where a host program is played. By default all
/// memory of the profile's device, 0: as much as it takes.
struct AllocatorChoice {
  AllocatorSettings settings = {};
  std::optional<DeviceCapacity> memory = {};
};

/// Plays one rank's schedule; ranks are symmetric, so that the cost does not grow with the world.
/// A schedule with a host program is played action by action, with the caching allocator. Throws
/// Error where the profile lacks a figure that the schedule needs.
Simulation simulate(const Schedule& schedule, const HardwareProfile& profile,
                    const AllocatorChoice& allocator = {});

/// How operations on a device of this profile slow each other.
SharingRules sharing_rules(const HardwareProfile& profile);

/// How a device of this profile runs a schedule.
EngineOptions engine_options(const HardwareProfile& profile);

/// Timeline as a trace: a span of every operation of the step, and the live bytes when the host
/// reaches an operation that changes them (what it allocates included, what earlier ones freed
/// gone), then those between steps.
Trace predicted_trace(const Schedule& schedule, const Timeline& timeline);

}  // namespace shardscope
