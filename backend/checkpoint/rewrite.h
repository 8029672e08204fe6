// A checkpoint written again in another layout, without a run.
#pragma once

#include <filesystem>

#include "backend/checkpoint/checkpoint.h"

namespace shardscope {

/// Both write beside `place` and put it there when it is whole; what lies there already is an
/// Error. Where training stands is kept. Tensors are read and written piece by piece.

/// SHARDED, in `world` files of equal size.
void reshard(Checkpoint& checkpoint, int world, const std::filesystem::path& place);
/// FULL: a folder that transformers loads, with the optimizer's states beside.
void merge(Checkpoint& checkpoint, const std::filesystem::path& place);

}  // namespace shardscope
