// Rates measured at points, and the rate expected at a point between them.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/kernel.h"
#include "core/schedule/samples.h"

namespace shardscope {

/// Where a kernel stands among others of its kind: log2 of the sizes that its rate depends on, and
/// switches (layout, bias, accumulate, ...) that count as a distance in octaves when they differ.
struct RatePoint {
  std::array<double, 3> octaves{};
  std::uint32_t switches = 0;
  bool operator==(const RatePoint&) const = default;
};
RatePoint rate_point(const Kernel& kernel);

/// What a kernel's time is proportional to at a constant rate: flops of matrix products and
/// attention, bytes of all others.
double work_of(const Kernel& kernel);

/// Measured rates of one kernel kind.
class RateTable {
 public:
  void add(const KernelSample& sample);
  bool empty() const { return rows_.empty(); }

  /// Work per second at `point`: the geometric mean of the measured rates, weighted by 1 /
  /// distance^4 in octaves (Shepard, "A two-dimensional interpolation function for
  /// irregularly-spaced data", 1968); a measured point gives its own rate. Must not be empty.
  double rate_at(const RatePoint& point) const;

 private:
  struct Row {
    RatePoint point;
    double log_rate = 0;
  };
  std::vector<Row> rows_;
};

/// Time over bytes from measured points, straight in log-log between neighbours. Below the smallest
/// the time of the smallest, above the largest the rate of the largest.
class TimeCurve {
 public:
  void add(Bytes bytes, Duration time);
  bool empty() const { return points_.empty(); }
  Bytes smallest() const { return points_.front().bytes; }  ///< that was measured
  Duration time_at(Bytes bytes) const;

 private:
  struct Point {
    Bytes bytes;
    Duration time;
  };
  std::vector<Point> points_;  ///< by bytes
};

}  // namespace shardscope
