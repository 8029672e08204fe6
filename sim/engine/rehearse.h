// A schedule played for its memory alone.
#pragma once

#include <functional>

#include "core/schedule/schedule.h"
#include "sim/engine/simulate.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

struct Rehearsal {
  Bytes reserved;              ///< by the allocator, or the arena; the most of any step
  bool out_of_memory = false;  ///< a request failed, and nothing behind it was played
};

/// Told what the first step held: whether the rest is played, too.
using BehindFirstStep = std::function<bool(const Rehearsal& first)>;

/// What `simulate` says of memory, without its trace, which takes a third of the time.
Rehearsal rehearse(const Schedule& schedule, const HardwareProfile& profile,
                   const AllocatorChoice& allocator = {}, const BehindFirstStep& goes_on = {});

}  // namespace shardscope
