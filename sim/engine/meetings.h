// Where ranks that are played together meet: collectives and transfers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

struct RankOperation {
  std::size_t place = 0;        ///< which of the schedules
  std::uint32_t operation = 0;  ///< of it
};

/// One collective or transfer in which several of the schedules' ranks take part: the n-th of one
/// member is the n-th of every other.
struct RankMeeting {
  std::string group;
  std::size_t nth = 0;
  std::size_t members = 0;             ///< of the schedules
  std::vector<RankOperation> present;  ///< those that come to it, by place; fewer: the ranks differ
  bool is_whole() const { return present.size() == members; }
};

/// Of these operations of each schedule. Operations that no other schedule's rank takes part in are
/// in none.
std::vector<RankMeeting> find_meetings(std::span<const Schedule> schedules,
                                       std::span<const IndexRange> operations);

}  // namespace shardscope
