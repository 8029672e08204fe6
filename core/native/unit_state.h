// What the passes of the native runtime share: what a strategy shards, and the buffers of each
// unit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/native/units.h"
#include "core/schedule/schedule.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// What a strategy shards.
struct Sharding {
  bool parameters = false;
  bool gradients = false;
  bool optimizer_states = false;
  bool replicas = false;  ///< shards are summed over replicas (hybrid)
};
Sharding sharding_of(const Strategy& strategy);

/// Whether trained units have a master copy beside the parameters that are computed with: in mixed
/// precision, and where the optimizer's states are on the host and the parameters are not.
bool has_master(const Strategy& strategy);

/// What there is of a unit's storage at this point of the step.
struct UnitState {
  bool trainable = false;
  BufferId parameters;  ///< shard or whole, kept
  BufferId master;      ///< what the optimizer updates, where that is another dtype
  BufferId unsharded;   ///< gathered, if it is now
  BufferId gradients;   ///< reduced shard, or the whole local gradient where it is not sharded
  BufferId unsharded_gradients;  ///< being written by the backward
  std::vector<bool> written;     ///< by parameter slot: has a gradient in the current storage
  BufferId first_state, second_state;
  BufferId host_gradients;  ///< what the host's update reads, where it is done there
  /// Where the host's update leaves what is computed with, before it is copied to the device; none:
  /// in `master`, or in `parameters` that lie on the host.
  BufferId host_parameters;
};

/// "adamw:transformer.h.0"; the root's name is empty and stands as "root".
std::string named(std::string_view what, const Unit& unit);

/// A rank's shard inside a buffer that holds all of the unit in `dtype`.
Operand own_part(BufferId buffer, const Unit& unit, int shard, Dtype dtype, Access access);

/// The gather of a unit's shards.
Collective gather_of(const Unit& unit, GroupId group, Dtype dtype);

}  // namespace shardscope
