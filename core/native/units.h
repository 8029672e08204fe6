// Units of the native runtime: which parameters are gathered and reduced together, and where each
// lies in the flat storage.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "core/schedule/schedule.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// The units of a model and which unit each block is in.
struct UnitPlan {
  std::vector<Unit> units;  ///< the root (name "") first, then by first block
  std::vector<UnitId> unit_of_block;
};

/// Wraps blocks as `strategy.wrap` says; what is in no block belongs to the root. Every parameter
/// starts on a multiple of `piece_elements`, and the flat storage is padded to a multiple of
/// piece_elements * data-parallel ranks, in every strategy alike: so a piece of the gradient norm
/// never straddles two shards.
UnitPlan plan_units(const Model& model, const Strategy& strategy);

/// Which shard of the mesh a rank holds, and how many there are.
struct ShardPosition {
  int index = 0;
  int count = 1;
};
ShardPosition shard_position(const Strategy& strategy, int rank);

/// The parts of trainable parameters that lie in [first, first + elements) of a unit's flat
/// storage, offsets from `first`, pieces numbered from `first_piece` at `first`.
std::vector<Slice> slices_in(const Model& model, const Unit& unit, std::int64_t first,
                             std::int64_t elements, std::int64_t first_piece);

}  // namespace shardscope
