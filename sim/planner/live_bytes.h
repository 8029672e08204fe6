// What lives on a device while a host program goes on.
#pragma once

#include <cstdint>

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"

namespace shardscope::planner {

/// What some actions leave behind or let go, and what lives at the most beside what lived when they
/// began.
struct LiveChange {
  Bytes change, most;
};

/// Bytes of the allocator's blocks, action after action. The schedule must outlive it.
class LiveBytes {
 public:
  explicit LiveBytes(const Schedule& schedule) : schedule_(schedule) {}

  /// Of these actions; those before them are passed first.
  LiveChange pass(IndexRange actions);

 private:
  void go_to(std::uint32_t end);

  const Schedule& schedule_;
  std::uint32_t next_ = 0;
  Bytes live_, most_;
};

}  // namespace shardscope::planner
