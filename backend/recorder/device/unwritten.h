// The functions of cuda_names.txt that nobody wrote: each returns 0 and is told of once.
#pragma once

namespace shardscope::recorder {

/// Is this one of them.
bool is_generated(const void* function);

}  // namespace shardscope::recorder
