// Times collectives, alone and while compute runs.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backend/calibrate/core_use.h"
#include "backend/comm/collective_queue.h"
#include "backend/comm/communicator.h"
#include "backend/device/device.h"
#include "core/schedule/samples.h"

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

/// Runs collectives as a training step does: on a communication thread, or on a stream of a device
/// that has its own memory, by that device's clock; on memory of the communicator's arena. All
/// calls are collective over `world`, which must outlive it, as must `device`.
class CollectiveTimer {
 public:
  /// Takes the arena of `world`, large enough for `largest`.
  CollectiveTimer(Communicator& world, Device& device, Bytes largest, const CoreUse& cores = {});

  /// Median of 3 to 15 runs within `budget`, mean over ranks.
  CollectiveSample time(const CollectiveCase& c, Duration budget);

  /// Matrix products while `bytes` are gathered and reduced over all ranks. Where every core
  /// computes, the communication thread, which has slept, goes first: compute stands still while it
  /// copies, and it is the thread's own processor time that is measured.
  Slowdowns slowdowns(const Kernel& product, Bytes bytes);

 private:
  Communicator& group_of(int ranks);
  std::size_t next_place(std::size_t total);
  void run(const CollectiveCase& c);
  CollectiveQueue::Ticket submit(const CollectiveCase& c);
  Duration duration_of(CollectiveQueue::Ticket ticket) const;
  /// Mean of `in_a_row`.
  Duration time_once(const CollectiveCase& c, int in_a_row);
  CollectiveCase contending(int number, Bytes bytes) const;
  Slowdowns slowdowns_on_busy_cores(Bytes bytes);
  Slowdowns slowdowns_on_host(const Kernel& product, const KernelCall& call, Bytes bytes);
  Slowdowns slowdowns_on_device(const Kernel& product, const KernelCall& call, Bytes bytes);
  struct SideBySide {
    Duration products;
    Duration collectives;
  };
  SideBySide run_on_streams(const std::function<void()>& product, int products, Bytes bytes,
                            int collectives);

  Communicator& world_;
  Device& device_;
  std::unique_ptr<Arena> arena_;
  Bytes half_;  ///< of the arena: where results of reductions go
  std::size_t next_place_ = 0;
  std::vector<std::pair<int, std::unique_ptr<Communicator>>> groups_;
  std::unique_ptr<DeviceTimeline> timeline_;  ///< of a device that has a clock of its own
  CoreUse cores_;
  Duration processor_time_;  ///< of the communication thread in collectives
  CollectiveQueue queue_;
};

}  // namespace shardscope
