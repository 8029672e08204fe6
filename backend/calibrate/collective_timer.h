// Times collectives, alone and while compute runs.
#pragma once

#include <memory>
#include <vector>

#include "backend/comm/collective_queue.h"
#include "backend/communicator.h"
#include "backend/device.h"
#include "core/samples.h"

namespace shardscope {

/// One collective to time: over groups of `ranks` neighbours, all groups at once.
struct CollectiveCase {
  OperationKind kind = OperationKind::all_gather;  ///< all_gather, reduce_scatter or all_reduce
  int ranks = 2;
  Bytes bytes;  ///< payload: out of the gather, into the reduction
  auto operator<=>(const CollectiveCase&) const = default;
};

/// The three kinds over sizes, for 2, 4, 8, ... ranks up to all of them.
std::vector<CollectiveCase> collective_grid(int ranks);

/// Factors of what runs at once over what runs alone; at least 1.
struct Slowdowns {
  double compute = 1;
  double collective = 1;
};

/// Runs collectives as a training step does: on a communication thread, on memory of the
/// communicator's arena. All calls are collective over `world`, which must outlive it.
class CollectiveTimer {
 public:
  /// Takes the arena of `world`, large enough for `largest`.
  CollectiveTimer(Communicator& world, Bytes largest);

  /// Median of 3 to 15 runs within `budget`, mean over ranks.
  CollectiveSample time(const CollectiveCase& c, Duration budget);

  /// A matrix product on this thread while the communication thread gathers and reduces `bytes`,
  /// over all ranks.
  Slowdowns slowdowns(Device& device, const Kernel& product, Bytes bytes);

 private:
  Communicator& group_of(int ranks);
  CollectiveQueue::Ticket submit(const CollectiveCase& c);
  Duration duration_of(CollectiveQueue::Ticket ticket) const;

  Communicator& world_;
  std::unique_ptr<Arena> arena_;
  Bytes half_;  ///< of the arena: where results of reductions go
  std::vector<std::pair<int, std::unique_ptr<Communicator>>> groups_;
  CollectiveQueue queue_;
};

}  // namespace shardscope
