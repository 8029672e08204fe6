// A schedule played on a machine that is only a profile: the predicted trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/allocator/caching_allocator.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/peer_arrivals.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/intervals.h"
#include "traces/trace.h"

namespace shardscope {

/// Memory of one step.
struct StepMemory {
  Bytes peak_allocated, peak_active, peak_reserved;
  CategoryBytes at_peak;     ///< allocated, in blocks
  CategoryBytes maximum;     ///< of each category by itself
  OperationId at_operation;  ///< the last one issued before the peak of `allocated`
  std::int64_t retries = 0;  ///< requests tried again after the cache had been given back
};

/// One step: it lasts from the end of the step before on the device to its own.
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
  Trace trace;            ///< predicted; time 0 is the start of the first step
  Accounting accounting;  ///< over the step that repeats; `span` is the step time
  std::vector<SimulatedStep> steps = {};
  std::optional<RunsOutOfMemory> out_of_memory = {};
};

/// The caching allocator and its device's memory, for schedules whose memory comes from it. By
/// default all memory of the profile's device, 0: as much as it takes.
struct AllocatorChoice {
  AllocatorSettings settings = {};
  std::optional<DeviceCapacity> memory = {};
};

/// Plays one rank's schedule, action by action of its host program; ranks are symmetric, so that
/// the cost does not grow with the world. Memory comes from the caching allocator or, of a schedule
/// with an arena, follows from the operations: it changes when the host reaches one. Throws Error
/// where the profile lacks a figure that the schedule needs. `peers`: other ranks that this one
/// waits for.
Simulation simulate(const Schedule& schedule, const HardwareProfile& profile,
                    const AllocatorChoice& allocator = {}, const PeerArrivals& peers = {});

}  // namespace shardscope
