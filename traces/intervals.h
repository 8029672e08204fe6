// Unions of time windows.
#pragma once

#include <vector>

#include "core/base/quantities.h"

namespace shardscope {

/// Half-open stretch of a trace's clock.
struct TimeWindow {
  Duration begin;
  Duration end;
  Duration length() const { return end - begin; }
  bool operator==(const TimeWindow&) const = default;
};

/// The part of `window` inside `limits`; empty (begin = end) where they do not meet.
TimeWindow clipped(TimeWindow window, TimeWindow limits);

/// The union of any windows as disjoint ones, ascending; empty windows vanish. O(n log n).
class IntervalUnion {
 public:
  IntervalUnion() = default;
  explicit IntervalUnion(std::vector<TimeWindow> windows);

  const std::vector<TimeWindow>& windows() const { return windows_; }
  Duration length() const {
    return before_.empty() ? Duration{} : before_.back() + windows_.back().length();
  }
  /// Length of the union inside `window`, O(log n).
  Duration covered(TimeWindow window) const;

 private:
  Duration covered_before(Duration time) const;

  std::vector<TimeWindow> windows_;
  std::vector<Duration> before_;  ///< length of the union before windows_[i]
};

/// Length of the part that both cover, O((m + n) log n).
Duration overlap(const IntervalUnion& a, const IntervalUnion& b);

/// What `a` covers and `b` does not, ascending.
std::vector<TimeWindow> difference(const IntervalUnion& a, const IntervalUnion& b);

}  // namespace shardscope
