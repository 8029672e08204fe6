// A schedule played for its memory alone.
#pragma once

#include "core/schedule/schedule.h"
#include "sim/engine/simulate.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

struct Rehearsal {
  Bytes reserved;              ///< by the allocator, or the arena; the most of any step
  bool out_of_memory = false;  ///< a request failed, and nothing behind it was played
};

/// What `simulate` says of memory, without its trace, which takes a third of the time.
Rehearsal rehearse(const Schedule& schedule, const HardwareProfile& profile,
                   const AllocatorChoice& allocator = {});

}  // namespace shardscope
