// The host's part of a native step: it issues the operations in their order.
#pragma once

#include "core/schedule/schedule.h"

namespace shardscope {

/// Fills `schedule.program` and the actions of its steps, which must be there. A lane for every
/// stream in use, in the order of `Stream`. An operation waits for those of its `after` on other
/// lanes. The host waits once, at the end of a step; where it computes, it runs everything that is
/// no collective itself. Throws Error where an operation is to run after a later one.
void issue_in_order(Schedule& schedule, HostRole host);

}  // namespace shardscope
