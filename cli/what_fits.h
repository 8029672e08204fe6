// What to change where a job does not fit into a device's memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/native_scenario.h"
#include "core/base/quantities.h"

namespace shardscope {

/// Memory for the arenas of some ranks. `where`: "GPU memory"; `room`: "78.9 GiB that are free of
/// 79.6 GiB".
struct RoomForArenas {
  std::string where;
  std::string room;
  Bytes available;
  /// Of a pipeline: the stages whose arenas lie there, one for each rank. None: the largest alone.
  std::vector<int> stages = {};
};

/// One change that makes the arenas fit.
struct FittingChange {
  std::string option;  ///< "--batch 12", "--checkpointing full", "--strategy full_shard"
  Bytes needed;
};

/// Alone and in this order: the largest micro-batch, checkpointing, without a pipeline the first
/// strategy that shards more; last the largest micro-batch with checkpointing, where neither alone
/// is enough.
std::vector<FittingChange> what_fits(const NativeScenario& scenario, const DeviceKind& device,
                                     const RoomForArenas& room);

/// Error (ExitCode::no) with the numbers and the way out unless the arenas fit.
void require_fit(const NativeScenario& scenario, const DeviceKind& device,
                 const RoomForArenas& room);

}  // namespace shardscope
