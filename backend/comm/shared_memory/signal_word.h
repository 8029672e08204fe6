// A number in shared memory that one process raises and others wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace shardscope {

/// Counts upwards (and around); zeroed memory is a valid one. Waiting costs a short spin, then the
/// processor is given up.
class SignalWord {
 public:
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }
  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value() - target) >= 0;
  }

  /// Sets the value and wakes who waits. Everything written before is seen by who sees the value.
  void raise(std::uint32_t value);

  /// Returns at the target, or after about `longest`; true if the target is reached.
  bool wait(std::uint32_t target, std::chrono::nanoseconds longest);

 private:
  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> waiters_;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace shardscope
