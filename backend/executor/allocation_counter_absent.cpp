// Where allocations cannot be seen: under a sanitizer, or with another C library than glibc.
#include "backend/executor/allocation_counter.h"

namespace shardscope {

bool can_count_allocations() { return false; }

CountAllocations::CountAllocations(AllocationCounts& /*counts*/) {}
CountAllocations::~CountAllocations() = default;
LibraryCall::LibraryCall() = default;
LibraryCall::~LibraryCall() = default;

}  // namespace shardscope
