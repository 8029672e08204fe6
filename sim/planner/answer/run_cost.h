// What a whole training takes at a step time, and the longest step that a goal allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/quantities.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope::planner {

/// What is asked of a whole training, beside its strategy.
struct Goals {
  std::optional<double> train_tokens;        ///< of the whole training
  std::optional<double> price_per_gpu_hour;  ///< in whatever currency
  std::optional<double> tokens_per_s;        ///< at least, of the whole job
  std::optional<double> deadline_days;       ///< at most, for train_tokens
  std::optional<double> budget;              ///< at most, for train_tokens at that price
};

struct RunCost {
  std::int64_t steps = 0;
  double days = 0;
  double gpu_hours = 0;
  std::optional<double> price;
};

/// Of steps that follow each other without a pause. Example: 10^9 tokens in steps of 10^6 tokens
/// and 1 s on 8 GPUs are 1,000 steps, 0.0116 days and 2.22 GPU-hours. None without tokens to train.
std::optional<RunCost> run_cost(Duration step, int world, std::int64_t tokens_per_step,
                                const Goals& goals);

/// What the GPUs take at their power limit, in kWh: an upper bound of them alone, without hosts,
/// network and cooling. Example: 2 GPU-hours at 700 W are 1.4 kWh. None where the profile has no
/// power limit.
std::optional<double> most_energy_kwh(double gpu_hours, const HardwareProfile& profile);

/// The longest step that meets all goals, and which goal it comes from: "--deadline 2".
struct SlowestStep {
  Duration time;
  std::string goal;
};
std::optional<SlowestStep> slowest_step(int world, std::int64_t tokens_per_step,
                                        const Goals& goals);

}  // namespace shardscope::planner
