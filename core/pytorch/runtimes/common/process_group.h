// Groups of ranks that communicate, as one rank sees them.
#pragma once

#include <deque>
#include <vector>

#include "core/base/ranks.h"

namespace shardscope::eager {

/// torch.distributed.ProcessGroup: a communicator. Two of them may hold the same ranks.
struct ProcessGroup {
  int id = 0;    ///< in the order in which they were made; 0 is the world's
  Ranks ranks;   ///< global ranks in the group's order
  int rank = 0;  ///< this process's place among them; -1: it is no member

  int size() const { return static_cast<int>(ranks.size()); }
};

/// All groups of a run. References stay valid as long as it lives.
class ProcessGroups {
 public:
  /// The world's group, and this process's global rank in it.
  ProcessGroups(int world, int rank);
  ProcessGroups(const ProcessGroups&) = delete;
  ProcessGroups& operator=(const ProcessGroups&) = delete;

  const ProcessGroup& world() const { return groups_.front(); }
  int rank() const { return world().rank; }
  const std::deque<ProcessGroup>& all() const { return groups_; }

  /// dist.new_group: always one more.
  const ProcessGroup& add(Ranks ranks);

  /// This process's group along each dimension of init_device_mesh(shape) over the world; a
  /// dimension of all ranks is the world's own group. Example: shape {2, 4}, rank 5: {1, 5} and
  /// {4, 5, 6, 7}.
  std::vector<const ProcessGroup*> mesh(const std::vector<int>& shape);

 private:
  std::deque<ProcessGroup> groups_;
};

}  // namespace shardscope::eager
