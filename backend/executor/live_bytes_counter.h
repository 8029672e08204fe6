// Counts the live bytes that are really handed to kernels and collectives, from their operands
// alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Follows one pass over a list of operations as the host issues them. A buffer is live from the
/// first operation that it is handed to until the end of the first operation of the compute stream
/// by which the host knows that all its uses have ended. Knowledge comes from stream order and from
/// `Schedule::after`. Persistent buffers are always live. Neither `Buffer::freed_by` nor the arena
/// is looked at, so that the count checks both. Allocates only when constructed.
class LiveBytesCounter {
 public:
  /// `operations` in issue order. `schedule` must outlive the counter.
  LiveBytesCounter(const Schedule& schedule, std::vector<OperationId> operations);

  /// Before the first operation of a pass.
  void restart();
  /// The operation is issued now; gives the buffers that become live.
  std::span<const BufferId> issued(OperationId operation);
  /// An operation of the compute stream has ended; gives the buffers that are live no longer.
  std::span<const BufferId> ended(OperationId operation);

  const CategoryBytes& live() const { return live_; }

 private:
  /// By stream: how many of its operations, in issue order, are known to have ended.
  using Known = std::array<std::uint32_t, stream_count>;

  void count_uses();
  void derive_knowledge();
  void release_uses_of(OperationId operation);

  const Schedule& schedule_;
  std::vector<OperationId> operations_;
  std::array<std::vector<OperationId>, stream_count> by_stream_;
  std::vector<Known> known_at_start_;  ///< by operation
  std::vector<std::uint32_t> place_;   ///< by operation: index in its stream
  std::vector<std::uint32_t> uses_;    ///< by buffer, in one pass
  CategoryBytes persistent_;

  Known released_{};  ///< uses of these have been counted off
  std::vector<std::uint32_t> uses_left_;
  std::vector<bool> is_live_;
  CategoryBytes live_;
  std::vector<BufferId> changed_;
};

}  // namespace shardscope
