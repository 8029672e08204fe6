// What a device did in each pixel: exact at every zoom, from running sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/analysis.h"
#include "traces/trace.h"

namespace shardscope::gui {

/// Nanoseconds of one pixel; they sum to its length.
struct PixelTimes {
  std::int64_t compute = 0;
  std::int64_t overlapped = 0;     ///< communication behind compute; within `compute`
  std::int64_t communication = 0;  ///< exposed
  std::int64_t copy = 0;           ///< exposed
  std::int64_t idle = 0;
  bool operator==(const PixelTimes&) const = default;
};

/// Disjoint stretches of time and the length of those before each: 24 bytes a stretch.
class CoveredTime {
 public:
  CoveredTime() = default;
  explicit CoveredTime(const std::vector<TimeWindow>& ascending);

  const std::vector<TimeWindow>& windows() const { return windows_; }
  std::int64_t covered(std::int64_t begin, std::int64_t end) const;
  /// Of each stretch between two `edges` (ascending), by galloping: O(edges * log gap).
  void covered(std::span<const std::int64_t> edges, std::vector<std::int64_t>& lengths) const;

 private:
  std::int64_t before(std::int64_t time, std::size_t& from) const;

  std::vector<TimeWindow> windows_;
  std::vector<std::int64_t> before_;
};

/// The accounting of one trace (traces/analysis.h) for any stretch of time.
class Coverage {
 public:
  Coverage() = default;
  explicit Coverage(const Trace& trace);

  /// As account(trace, window).
  Accounting account(TimeWindow window) const;
  /// Between each two of `edges` (ascending).
  std::vector<PixelTimes> pixels(std::span<const std::int64_t> edges) const;

  /// Communication behind which nothing is computed, by begin.
  const std::vector<TimeWindow>& exposed() const { return exposed_.windows(); }
  const CoveredTime& exposed_time() const { return exposed_; }
  /// Device or host work of any kind.
  bool empty() const { return busy_.windows().empty(); }

 private:
  CoveredTime compute_, communication_, overlapped_, exposed_, exposed_copies_, busy_;
};

}  // namespace shardscope::gui
