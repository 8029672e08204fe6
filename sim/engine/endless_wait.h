// Ranks that wait for each other without end, found without times.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/schedule/schedule.h"
#include "sim/engine/meetings.h"

namespace shardscope {

/// Walks through the host programs of the schedules, to the end of their last step. An operation
/// ends at once; one of `meetings` ends when all of its ranks have come to it. None: all programs
/// end. Else the ranks that wait for each other in a circle, and where. Example: "rank 0 waits in
/// nccl.receive of step 1 for rank 1, rank 1 waits in nccl.receive of step 1 for rank 0". One pass
/// is enough: which programs can go on does not depend on the order in which they do.
std::optional<std::string> endless_wait(std::span<const Schedule> schedules,
                                        std::span<const RankMeeting> meetings);

}  // namespace shardscope
