// A stretch of a view's time axis, and how zooming and panning change it.
#pragma once

namespace shardscope::gui {

/// Nanoseconds of the axis (time_map.h). Not whole, so that zooming is smooth; exact to the
/// nanosecond up to 2^53 ns, 104 days.
struct TimeRange {
  double begin = 0;
  double end = 1;

  double length() const { return end - begin; }
  double middle() const { return begin + length() / 2; }
  bool contains(double time) const { return begin <= time && time < end; }
  bool operator==(const TimeRange&) const = default;
};

/// The shortest range that can be shown: a nanosecond is then some 100 pixels wide.
inline constexpr double shortest_range_ns = 10;

/// `range` moved, and shortened where it must be, so that it lies within `limits`; at least
/// `shortest_range_ns` long, or as long as `limits`.
TimeRange clamped(TimeRange range, TimeRange limits);

/// `range` made `factor` times as long, `centre` staying where it is on the screen.
TimeRange zoomed(TimeRange range, double factor, double centre);

/// `range` moved by `share` of its length, to later times where it is positive.
TimeRange panned(TimeRange range, double share);

/// `range` with `share` of its length added on both sides.
TimeRange with_margin(TimeRange range, double share);

/// Both.
TimeRange united(TimeRange a, TimeRange b);

}  // namespace shardscope::gui
