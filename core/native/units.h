// Units of the native runtime: which parameters are gathered and reduced together, and where each
// lies in the flat storage.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "core/schedule/schedule.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// The units of a model and which unit each block and each parameter is in.
struct UnitPlan {
  std::vector<Unit> units;  ///< the root (name "") first, then by first block
  /// Of a block with trained parameters and frozen ones: the unit of the trained ones.
  std::vector<UnitId> unit_of_block;
  std::vector<UnitId> unit_of_parameter;
  /// By unit of trained parameters: the unit of the same modules' frozen ones, if they have any.
  std::vector<UnitId> frozen_beside;
};

/// Wraps blocks as `strategy.wrap` says; what is in no block belongs to the root. A unit's
/// parameters are all trained or all frozen: where modules have both, the frozen ones are a unit of
/// their own behind all others ("transformer.h.0 (frozen)"). Every parameter starts on a multiple
/// of `piece_elements`, and the flat storage is padded to a multiple of piece_elements *
/// data-parallel ranks, in every strategy alike: so a piece of the gradient norm never straddles
/// two shards.
/// `has_parameter` leaves out what a rank of a pipeline does not have; empty: it has all.
UnitPlan plan_units(const Model& model, const Strategy& strategy,
                    const std::vector<bool>& has_parameter = {});

/// Which shard of the mesh a rank holds, and how many there are.
struct ShardPosition {
  int index = 0;
  int count = 1;
};
ShardPosition shard_position(const Strategy& strategy, int rank);

/// The parts of parameters that lie in [first, first + elements) of a unit's flat storage, offsets
/// from `first`, pieces numbered from `first_piece` at `first`.
std::vector<Slice> slices_in(const Model& model, const Unit& unit, std::int64_t first,
                             std::int64_t elements, std::int64_t first_piece);

}  // namespace shardscope
