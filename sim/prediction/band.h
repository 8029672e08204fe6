// The band of a predicted step time: what it may be, as the constants it follows from are
// uncertain.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/engine/step_player.h"
#include "sim/engine/step_program.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Costs that are wrong together, because the same constants of a machine make them.
enum class CostGroup : std::uint8_t {
  products,      ///< matrix products: peak, clocks, tiles
  batched,       ///< products in batches: attention by hand
  unaligned,     ///< those of heads that are no multiple of 16 bytes
  attention,     ///< fused attention
  convolutions,  ///< of cuDNN: shares of the rate of products
  recurrent,     ///< networks of cuDNN: times of their steps
  memory,        ///< kernels that move data: bandwidth and the shares of it
  links,         ///< collectives within a node
  network,       ///< collectives between nodes
  host,          ///< Python, dispatch and launches
  hooks          ///< Python around modules, which launches nothing
};
inline constexpr std::size_t cost_group_count = 11;
std::string_view name_of(CostGroup group);

/// One number a group.
using GroupValues = std::array<double, cost_group_count>;

/// Relative standard deviations: of each group's costs, and of the model itself, which leaves out
/// what it does not know of.
struct CostSpreads {
  GroupValues of_group{};
  double of_model = 0;
};

/// Of a normal distribution: 90% of it lies within so many standard deviations of the mean.
inline constexpr double deviations_of_ninety_percent = 1.645;

/// What a figure states (`spread`, docs/hardware_profile.md), else what is usual of its origin.
double spread_of(const Provenance& provenance);

/// As the profile's figures state them (`spread`, docs/hardware_profile.md).
CostSpreads spreads_of(const HardwareProfile& profile);

/// Which constants an operation's time follows from.
CostGroup cost_group(const Schedule& schedule, const Operation& op, const HardwareProfile& profile);

/// Factors on a step time: nine of ten measurements are expected between the two products.
struct StepTimeBand {
  double low_factor = 1, high_factor = 1;
};

/// A step's time where the costs of every group are multiplied by its factor.
using ScaledStep = std::function<Duration(const GroupValues& factors)>;

/// Groups that a step has costs of.
class PresentGroups {
 public:
  void add(CostGroup group) { is_present_[static_cast<std::size_t>(group)] = true; }
  /// Whether a factor of one of them is not 1. Every step has costs of the host, and may have
  /// hooks.
  bool move_by(const GroupValues& factors) const;

 private:
  std::array<bool, cost_group_count> is_present_{};
};

/// As `step`, which is asked only where costs move.
ScaledStep where_moved(const PresentGroups& present, ScaledStep step);

/// How much a step's time is off where the constants of a group, or the model itself, are off by
/// one standard deviation: relative. Constants are drawn once for a machine, so that all steps on
/// it move together; the model's own error is each step's.
struct StepTimeMoves {
  GroupValues of_group{};
  double of_model = 0;
};

/// Moves every group by its spread, one after the other.
StepTimeMoves step_time_moves(const ScaledStep& step, const CostSpreads& spreads);

/// Adds up the squares of the moves: sigma. The factors are exp(+-1.645 sigma), which hold 90% of a
/// log-normal distribution. Example: a group with spread 10% makes 60 of 100 ms, the model's spread
/// is 8%: sigma = sqrt(0.06^2 + 0.08^2) = 0.1, factors 0.848 and 1.179.
StepTimeBand step_time_band(const StepTimeMoves& moves);
StepTimeBand step_time_band(const ScaledStep& step, const CostSpreads& spreads);

/// The same of how many times longer `other` takes than `of` on one machine: what moves both alike
/// cancels. Example: products move the one by 6% and the other by 5%, the model both by 3%: sigma =
/// sqrt(0.01^2 + 0.03^2 + 0.03^2) = 0.0436, factors 0.931 and 1.074.
StepTimeBand ratio_band(const StepTimeMoves& of, const StepTimeMoves& other);

/// Of a schedule's repeating step on this machine.
StepTimeMoves step_time_moves(const Schedule& schedule, const HardwareProfile& profile);
StepTimeBand step_time_band(const Schedule& schedule, const HardwareProfile& profile);

/// Of a schedule's step program.
ScaledStep scaled_step(const Schedule& schedule, const StepProgram& program, const StepCosts& costs,
                       const HardwareProfile& profile);

}  // namespace shardscope
