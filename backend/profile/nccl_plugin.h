// NCCL's profiler plugin, exported by our own program: with NCCL_PROFILER_PLUGIN=STATIC_PLUGIN the
// library finds the tables among the program's symbols.
#pragma once

#include "backend/profile/nccl_profiler_abi.h"

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): NCCL looks for these names
extern const shardscope::nccl_profiler::PluginV4 ncclProfiler_v4;
extern const shardscope::nccl_profiler::PluginV5 ncclProfiler_v5;
// NOLINTEND(readability-identifier-naming)
}
