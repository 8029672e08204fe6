// How long ranks that were recorded beside each other wait for each other.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
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

struct RanksTogether {
  std::vector<PeerArrivals> arrivals;  ///< by schedule; empty: the ranks wait for each other
  std::string endless_wait;            ///< then: which ones, and in which operations
  explicit operator bool() const { return endless_wait.empty(); }
};

/// Arrivals of the peers of each schedule's rank, where a collective or a transfer begins when all
/// of these ranks have come to it, and all begin their first step together. Found by playing the
/// ranks in turn, each with the arrivals of the others, until nothing changes; `on_sweep` is told
/// after each turn how many there were. Throws Error where the profile lacks a figure that a
/// schedule needs.
RanksTogether peer_arrivals(std::span<const Schedule> schedules, const HardwareProfile& profile,
                            const std::function<void(std::size_t sweeps)>& on_sweep = {});

}  // namespace shardscope
