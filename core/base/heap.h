// How the process keeps the memory that it has freed.
#pragma once

namespace shardscope {

/// Keeps up to 256 MiB of freed memory for later allocations. Without it, glibc returns memory to
/// the kernel after each recorded schedule, and the next one waits for the same pages again. Does
/// nothing with other C libraries. Call it first in main.
void keep_freed_memory();

}  // namespace shardscope
