// What the simulator says of a schedule on a machine: a predicted trace and its figures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/dtype.h"
#include "core/schedule/compile_scope.h"
#include "core/schedule/schedule.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/engine/peer_arrivals.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/summary.h"
#include "traces/trace.h"

namespace shardscope {

/// What a prediction's summary says of the run and its schedule does not know.
struct PredictedRun {
  std::string strategy;              ///< "full_shard"
  std::string runtime;               ///< "fsdp2"
  std::string precision;             ///< "bf16_mixed"
  Dtype compute = Dtype::float32;    ///< whose peak MFU is a share of
  std::int64_t tokens_per_step = 0;  ///< of the whole job
  /// What torch.compile compiled. The schedule is already what `compiled` returns
  /// (sim/kernels/compiled_memory.h); here it only sets the allowance for memory.
  CompileScope compiled = CompileScope::none;
  AllocatorSettings allocator = {};  ///< of schedules whose memory comes from it
  /// Costs several plays of the step more; without it the step time has no band.
  bool with_band = true;
  PeerArrivals peers = {};  ///< of other ranks that are played, too
};

/// Of a schedule of the native runtime, which says everything itself.
PredictedRun native_run(const Schedule& schedule);

struct Prediction {
  Schedule schedule;
  Trace trace;
  Summary summary;
  /// The operation that asks for memory that is not there.
  std::optional<OperationId> out_of_memory_at = {};
};

/// Simulates the schedule's rank: of the native runtime, or one with a host program, with host
/// thread and caching allocator. The step time's band is sim/prediction/band.h's.
Prediction predict(Schedule schedule, const PredictedRun& run, const HardwareProfile& profile);

}  // namespace shardscope
