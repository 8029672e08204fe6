// What to change where a job does not fit into a device's memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/native_scenario.h"
#include "core/base/quantities.h"

namespace shardscope {

/// One change that makes the arena of the scenario's rank fit.
struct FittingChange {
  std::string option;  ///< "--batch 12", "--checkpointing full", "--strategy full_shard"
  Bytes arena;
};

/// Alone and in this order: the largest micro-batch, checkpointing, the first strategy that shards
/// more; last the largest micro-batch with checkpointing, where neither alone is enough.
std::vector<FittingChange> what_fits(const NativeScenario& scenario, const DeviceKind& device,
                                     Bytes available);

/// Error (ExitCode::no) with the numbers and the way out unless `arena` is within `available`.
/// `where`: "GPU memory"; `room`: "78.9 GiB that are free of 79.6 GiB".
struct RoomForArena {
  std::string where;
  std::string room;
  Bytes available;
};
void require_fit(const NativeScenario& scenario, const DeviceKind& device,
                 const RoomForArena& room);

}  // namespace shardscope
