// How a side's clock is laid on the axis that views share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace shardscope::gui {

/// What the axis means.
enum class TimeMode : std::uint8_t {
  time,  ///< each side's own clock, from its first activity
  step,  ///< time since the begin of the step that is shown
  unit,  ///< as `step`, and every unit begins where it does in the reference side
};
std::string_view name_of(TimeMode mode);

/// A piecewise linear, strictly increasing map from a side's clock to the axis; beyond the first
/// and the last knot times run on as fast as the clock.
class TimeMap {
 public:
  struct Knot {
    double clock = 0;  ///< nanoseconds of the side's trace
    double axis = 0;
    bool operator==(const Knot&) const = default;
  };

  /// axis = clock - `origin`
  explicit TimeMap(double origin = 0) : knots_{{.clock = origin, .axis = 0}} {}
  /// Knots that do not increase in both are left out; none of them: the identity.
  explicit TimeMap(const std::vector<Knot>& knots);

  double axis_of(double clock) const;
  double clock_of(double axis) const;
  const std::vector<Knot>& knots() const { return knots_; }

 private:
  std::vector<Knot> knots_;
};

}  // namespace shardscope::gui
