// How long ranks that were recorded beside each other wait for each other.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// By operation: when the last of the other ranks comes to the same collective or transfer, counted
/// from the begin of the first step. Empty: no other rank is played.
using PeerArrivals = std::vector<Duration>;

/// The value of an operation in which no other rank that is played takes part.
inline constexpr Duration meets_nobody{-1};

/// Arrivals of the peers of each schedule's rank, where a collective or a transfer begins when all
/// of these ranks have come to it, and all begin their first step together. Found by playing the
/// ranks in turn, each with the arrivals of the others, until nothing changes. None: the ranks wait
/// for each other without end. Throws Error where the profile lacks a figure that a schedule needs.
std::optional<std::vector<PeerArrivals>> peer_arrivals(std::span<const Schedule> schedules,
                                                       const HardwareProfile& profile);

}  // namespace shardscope
