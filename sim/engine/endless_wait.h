// Ranks that wait for each other without end, found without times.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/schedule/schedule.h"
#include "sim/engine/meetings.h"

namespace shardscope {

/// The host programs of the schedules, from their begin to the end of their last step, where every
/// operation ends at once, and one of `meetings` when all of its ranks have come to it. None: all
/// of them end. Else the ranks that wait for each other in a circle, and where. Example: "rank 0
/// waits in nccl.receive of step 1 for rank 1, rank 1 waits in nccl.receive of step 1 for rank 0".
/// One pass over the programs: who can go on does not depend on the order in which they do.
std::optional<std::string> endless_wait(std::span<const Schedule> schedules,
                                        std::span<const RankMeeting> meetings);

}  // namespace shardscope
