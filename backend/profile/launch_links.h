// Which operation caused which record: ids that are pushed around an operation's calls, and the
// nodes of graphs that were captured for it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "backend/profile/device_record.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// What the calling thread is at.
struct LaunchPlace {
  OperationId operation;  ///< none: between operations
  std::int32_t step = 0;
  bool operator==(const LaunchPlace&) const = default;
};

/// The place as CUPTI carries it: the step above, below the operation; not 0 within a step.
std::uint64_t external_id_of(LaunchPlace place);
LaunchPlace place_of(std::uint64_t external_id);

/// A call that was made while `external_id` was the innermost pushed one.
struct ExternalLink {
  std::uint32_t correlation = 0;
  std::uint64_t external_id = 0;
  bool operator==(const ExternalLink&) const = default;
};

/// The operations for which the nodes of graphs were captured.
class GraphNodes {
 public:
  void created(std::uint64_t node, OperationId operation) { operations_[node] = operation; }
  /// A graph's executable form has nodes of its own.
  void cloned(std::uint64_t original, std::uint64_t clone);
  /// None: a node that was not captured for an operation.
  OperationId operation_of(std::uint64_t node) const;

 private:
  std::map<std::uint64_t, OperationId> operations_;
};

/// When the thread that issues was at a place, on the host's clock.
struct Stay {
  LaunchPlace place;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// When a call began, on the same clock.
struct CallMoment {
  std::uint32_t correlation = 0;
  std::int64_t start_ns = 0;
};

/// Gives records of the device that have no step the place where the issuing thread was when the
/// call that caused them began. Such a call was made by another thread: NCCL launches on one of its
/// own while the issuing thread waits. `stays` follow each other in time.
void link_by_time(std::span<DeviceRecord> records, std::vector<CallMoment> calls,
                  std::span<const Stay> stays);

/// Gives every record its operation and step: by the call that caused it, and of what ran in a
/// graph, by its node (the call, which launched all of the graph, says the step). Links may stand
/// anywhere relative to their records: the map is made first. Records without a link stay without.
void link_records(std::span<DeviceRecord> records, std::vector<ExternalLink> links,
                  const GraphNodes& nodes);

}  // namespace shardscope
