// Which operations of a pass mark events and which wait for them, so that the streams of a device
// keep the order that the schedule asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// The stream of a device that an operation goes to: collectives, copies to and from the host and
/// what the host updates have their own.
Stream queue_of(const Operation& operation);

/// An operation waits for those that the schedule has it come after, as far as they are on another
/// stream and its own has not waited for them or for later ones. Every stream starts after the
/// begin of the pass, and compute, which ends it, waits for the last of all. Nothing waits for an
/// earlier pass, which has ended.
class StreamOrder {
 public:
  StreamOrder(const Schedule& schedule, std::span<const OperationId> pass);

  /// Marked on the compute stream before the first operation.
  static constexpr std::uint32_t begin = 0;
  std::size_t event_count() const { return events_; }
  /// Events that the stream of an operation waits for before it.
  std::span<const std::uint32_t> waits_of(OperationId operation) const;
  /// The event that is marked after it on its stream, if somebody waits for it.
  std::optional<std::uint32_t> mark_of(OperationId operation) const;
  /// What compute waits for after the last operation.
  std::span<const std::uint32_t> waits_at_end() const { return at_end_; }

 private:
  class Maker;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::vector<std::uint32_t> waits_;
  std::vector<IndexRange> waits_of_;  ///< by operation, into waits_
  std::vector<std::uint32_t> mark_of_;
  std::vector<std::uint32_t> at_end_;
  std::uint32_t events_ = begin + 1;
};

}  // namespace shardscope
