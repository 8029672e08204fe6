// FSDP1's rate limiter.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "core/pytorch/engine/observer.h"

namespace shardscope::eager::fsdp1 {

/// _FreeEventQueue: events of frees, one of which the host waits for before each unshard once two
/// are there. Nothing ever clears it, so that an iteration begins with events of the last one.
/// Source: torch 2.15, _limiter_utils.py.
class RateLimiter {
 public:
  void enqueue(EventId freed) { queue_.push_back(freed); }

  /// The oldest event, if the limit is reached.
  std::optional<EventId> dequeue_if_needed() {
    if (queue_.size() < most_in_flight) return {};
    const EventId event = queue_.front();
    queue_.pop_front();
    return event;
  }

  std::size_t size() const { return queue_.size(); }

 private:
  static constexpr std::size_t most_in_flight = 2;
  std::deque<EventId> queue_;
};

}  // namespace shardscope::eager::fsdp1
