// What a step keeps in the host's memory beside the device's arena.
#pragma once

#include <optional>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Bytes that a copy moves between the host's memory and the device; none: it is within one of
/// them. Of PyTorch's copies the host's tensors are no operands.
std::optional<Bytes> moved_over_link(const Schedule& schedule, const Operation& op);

/// A copy from or to memory of the host that is not locked. It has a second operand, the driver's
/// buffer on the way, which is no buffer of the schedule.
bool is_pageable(const Schedule& schedule, const Operation& op);

/// `within` where nothing moves over the link.
CopyWay copy_way(const Schedule& schedule, const Operation& op);

/// Where each buffer of the host lies in the host's arena, one after the other: all of them are
/// kept. Offsets of the device's buffers mean nothing.
ArenaLayout host_layout(const Schedule& schedule);

}  // namespace shardscope
