// How operations that run at once slow each other: one rule for everything that plays a schedule.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "core/schedule.h"

namespace shardscope {

struct SharingRules {
  /// One channel: collectives run one after the other, in issue order.
  bool collectives_serial = true;
  double compute_slowdown = 1;     ///< factor on compute while a collective runs, at least 1
  double collective_slowdown = 1;  ///< factor on a collective while compute runs, at least 1
  bool operator==(const SharingRules&) const = default;
};

/// What an operation shares: the compute units, the links, or nothing (a copy engine, the host).
enum class Share : std::uint8_t { compute, collective, alone };
inline constexpr std::size_t share_count = 3;
Share share_of(OperationKind kind);

/// What runs at a moment.
class Sharing {
 public:
  explicit Sharing(const SharingRules& rules) : rules_(rules) {}

  void begin(Share share) { ++running_[static_cast<std::size_t>(share)]; }
  void end(Share share) { --running_[static_cast<std::size_t>(share)]; }
  bool runs(Share share) const { return running_[static_cast<std::size_t>(share)] > 0; }

  /// The factor on the time of an operation that runs now.
  double slowdown(Share share) const {
    if (share == Share::compute && runs(Share::collective)) return rules_.compute_slowdown;
    if (share == Share::collective && runs(Share::compute)) return rules_.collective_slowdown;
    return 1;
  }

 private:
  SharingRules rules_;
  std::array<int, share_count> running_{};
};

/// Whole nanoseconds that `left_ns` at full speed still take. A millionth of a nanosecond is
/// rounding, not work.
inline std::int64_t remaining_ns(double left_ns, double slowdown) {
  return static_cast<std::int64_t>(std::ceil(left_ns * slowdown - 1e-6));
}

}  // namespace shardscope
