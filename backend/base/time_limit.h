// A point in time until which something is waited for.
#pragma once

#include <chrono>

namespace shardscope {

/// Counts from its construction, on the steady clock.
class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TimeLimit(Clock::duration length) : length_(length), end_(Clock::now() + length) {}

  Clock::duration length() const { return length_; }
  bool passed() const { return Clock::now() >= end_; }
  /// What is left, never negative, at most `longest`; in milliseconds rounded up, as poll() takes
  /// it.
  int milliseconds_left(std::chrono::milliseconds longest) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
    if (left.count() <= 0) return 0;
    return static_cast<int>(left < longest ? left.count() : longest.count());
  }

 private:
  Clock::duration length_;
  Clock::time_point end_;
};

}  // namespace shardscope
