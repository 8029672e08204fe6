// What the system says that this process holds.
#pragma once

#include "core/base/quantities.h"

namespace shardscope {

/// Proportional set size: resident pages, those shared among n processes counted 1/n. Source:
/// /proc/self/smaps_rollup; 0 where that is not to be had.
Bytes proportional_set_size();

/// Bytes that this process has from the heap now (glibc mallinfo2: in use, and mapped ones).
Bytes heap_in_use();

/// Gives pages of the heap that nothing uses back to the system. How many it keeps otherwise
/// depends on the order of earlier calls.
void give_back_free_heap();

}  // namespace shardscope
