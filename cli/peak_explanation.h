// What lives at the peak of a schedule's memory: `simulate --explain`.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// The operation at which the most bytes live, and the buffers that live then, the largest first;
/// buffers of different blocks that are otherwise alike stand in one row.
std::string explain_peak(const Schedule& schedule, const Painter& painter);

}  // namespace shardscope
