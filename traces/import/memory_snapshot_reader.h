// Reads what torch.cuda.memory._snapshot() gave and somebody pickled.
#pragma once

#include <string>

#include "traces/import/memory_snapshot.h"
#include "traces/import/pickle.h"
#include "traces/import/text_input.h"

namespace shardscope {

/// Reads a memory snapshot as PyTorch 2.0 to 2.15 write it: the dict of `_snapshot()`, the list of
/// segments of `memory_snapshot()`, or what torch.profiler makes of its memory timeline. Events,
/// segments and blocks that cannot be read are left out and counted in the report. Throws Error
/// for a pickle that holds no snapshot, or more than plain data.
MemorySnapshot read_memory_snapshot(TextInput& input, const std::string& file,
                                    const PickleBounds& bounds = {});

/// The same of a pickle that has been read.
MemorySnapshot memory_snapshot_of(const Pickle& pickle, const std::string& file);

}  // namespace shardscope
