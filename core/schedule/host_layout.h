// What a step keeps in the host's memory beside the device's arena.
#pragma once

#include "core/schedule/schedule.h"

namespace shardscope {

/// Whether an operand of the operation lies in the host's memory.
bool uses_host_memory(const Schedule& schedule, const Operation& op);

/// Where each buffer of the host lies in the host's arena, one after the other: all of them are
/// kept. Offsets of the device's buffers mean nothing.
ArenaLayout host_layout(const Schedule& schedule);

}  // namespace shardscope
