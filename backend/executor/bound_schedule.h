// A schedule's operations with their operands as addresses.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/comm/communicator.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// The communicators of a schedule's groups.
class GroupCommunicators {
 public:
  /// Collective over `world`: each group is split off in the schedule's order; one that holds all
  /// ranks is `world` itself.
  GroupCommunicators(const Schedule& schedule, Communicator& world);

  Communicator& at(GroupId group) const { return *by_group_[group.value]; }

 private:
  std::vector<std::unique_ptr<Communicator>> owned_;
  std::vector<Communicator*> by_group_;
};

/// One collective, ready to run on the communication thread.
struct BoundCollective {
  OperationKind kind = OperationKind::barrier;
  Dtype dtype = Dtype::float32;
  Communicator* communicator = nullptr;
  std::span<const std::byte> in;
  std::span<std::byte> out;

  void run() const;
  /// Of a send or receive, whose group has two ranks.
  int other_rank() const;
};

/// Addresses of all operands; made once, so that a step only walks it.
class BoundSchedule {
 public:
  /// Throws Error for an operation that this backend cannot run. `address_of` says where a buffer
  /// begins. `schedule` and `groups` must outlive it.
  BoundSchedule(const Schedule& schedule, const GroupCommunicators& groups,
                const std::function<std::byte*(BufferId)>& address_of);

  /// Operand addresses in the kernel's order; null where absent.
  std::span<void* const> operands(OperationId operation) const;
  const BoundCollective& collective(OperationId operation) const {
    return collectives_[collective_of_[operation.value]];
  }

 private:
  BoundCollective bind(const Operation& operation, const GroupCommunicators& groups) const;

  const Schedule& schedule_;
  std::vector<void*> operands_;  ///< by index into Schedule::operands
  std::vector<BoundCollective> collectives_;
  std::vector<std::uint32_t> collective_of_;  ///< by operation
};

}  // namespace shardscope
