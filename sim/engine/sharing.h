// How operations that run at once slow each other: one rule for everything that plays a schedule.
#pragma once

#include <array>
#include <cstdint>

#include "core/schedule/schedule.h"
#include "sim/collectives/link_use.h"

namespace shardscope {

struct SharingRules {
  /// Collectives run one after the other, in issue order.
  bool collectives_serial = true;
  /// Only those of one communicator do, as NCCL's; others run beside them and share the links.
  bool communicators_apart = false;
  double compute_slowdown = 1;     ///< factor on compute while a collective runs, at least 1
  double collective_slowdown = 1;  ///< factor on a collective while compute runs, at least 1
  /// A kernel does not start while a collective runs: both need the same core.
  bool compute_waits = false;
  bool operator==(const SharingRules&) const = default;
};

/// What an operation shares: the compute units, the links, or nothing (a copy engine, the host).
enum class Share : std::uint8_t { compute, collective, alone };
inline constexpr std::size_t share_count = 3;
Share share_of(OperationKind kind);

/// Whose turn a collective waits for: its communicator's number, or 0 where all share one channel.
std::uint32_t channel_of(const Schedule& schedule, const Operation& op, const SharingRules& rules);

/// What runs at a moment.
class Sharing {
 public:
  explicit Sharing(const SharingRules& rules) : rules_(rules) {}

  /// `use`: of a collective.
  void begin(Share share, const LinkUse& use = {}) {
    ++running_[static_cast<std::size_t>(share)];
    if (share == Share::collective) links_ = links_ + use;
  }
  void end(Share share, const LinkUse& use = {}) {
    --running_[static_cast<std::size_t>(share)];
    if (share == Share::collective) links_ = runs(share) ? links_ - use : LinkUse{};
  }
  bool runs(Share share) const { return running_[static_cast<std::size_t>(share)] > 0; }

  /// The factor on the time of an operation that runs now.
  double slowdown(Share share) const {
    if (share == Share::compute && runs(Share::collective)) return rules_.compute_slowdown;
    if (share != Share::collective) return 1;
    const double compute = runs(Share::compute) ? rules_.collective_slowdown : 1;
    return compute * link_slowdown(links_);
  }
  /// All that the slowdowns depend on, as far as it changes them: equal values, equal slowdowns.
  struct Load {
    bool computes = false, communicates = false;
    double links = 1;
    bool operator==(const Load&) const = default;
  };
  Load load() const {
    return {runs(Share::compute), runs(Share::collective), link_slowdown(links_)};
  }

 private:
  SharingRules rules_;
  std::array<int, share_count> running_{};
  LinkUse links_;  ///< of all collectives that run
};

/// Whole nanoseconds, rounded up, that `left_ns` at full speed still take. A millionth of a
/// nanosecond is rounding, not work.
inline std::int64_t remaining_ns(double left_ns, double slowdown) {
  const double exact = left_ns * slowdown - 1e-6;
  const auto below = static_cast<std::int64_t>(exact);  // std::ceil is a call
  return below + (static_cast<double>(below) < exact ? 1 : 0);
}

/// The same of an operation that has not begun. Most have the device to themselves.
inline std::int64_t slowed(std::int64_t ns, double slowdown) {
  return slowdown == 1 ? ns : remaining_ns(static_cast<double>(ns), slowdown);
}

}  // namespace shardscope
