#include "sim/planner/answer/run_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardscope::planner {
namespace {

constexpr double seconds_an_hour = 3600, seconds_a_day = 86400;

double steps_of(double train_tokens, std::int64_t tokens_per_step) {
  return std::ceil(train_tokens / static_cast<double>(std::max<std::int64_t>(1, tokens_per_step)));
}

void narrow(double seconds, std::string goal, std::optional<SlowestStep>& slowest) {
  const Duration time = Duration::from_seconds(seconds);
  if (!slowest || time < slowest->time) slowest = SlowestStep{time, std::move(goal)};
}

}  // namespace

std::optional<RunCost> run_cost(Duration step, int world, std::int64_t tokens_per_step,
                                const Goals& goals) {
  if (!goals.train_tokens) return std::nullopt;
  const double steps = steps_of(*goals.train_tokens, tokens_per_step);
  const double seconds = steps * step.seconds();
  RunCost cost{.steps = static_cast<std::int64_t>(steps),
               .days = seconds / seconds_a_day,
               .gpu_hours = seconds * world / seconds_an_hour};
  if (goals.price_per_gpu_hour) cost.price = cost.gpu_hours * *goals.price_per_gpu_hour;
  return cost;
}

std::optional<double> most_energy_kwh(double gpu_hours, const HardwareProfile& profile) {
  constexpr double watts_a_kilowatt = 1000;
  if (!profile.gpu || profile.gpu->power_limit.watts <= 0) return std::nullopt;
  return gpu_hours * profile.gpu->power_limit.watts / watts_a_kilowatt;
}

std::optional<SlowestStep> slowest_step(int world, std::int64_t tokens_per_step,
                                        const Goals& goals) {
  std::optional<SlowestStep> slowest;
  if (goals.tokens_per_s)
    narrow(static_cast<double>(tokens_per_step) / *goals.tokens_per_s,
           fmt::format("--at-least {:.10g}", *goals.tokens_per_s), slowest);
  if (!goals.train_tokens) return slowest;
  const double steps = steps_of(*goals.train_tokens, tokens_per_step);
  if (goals.deadline_days)
    narrow(*goals.deadline_days * seconds_a_day / steps,
           fmt::format("--deadline {:.10g}", *goals.deadline_days), slowest);
  if (goals.budget && goals.price_per_gpu_hour)
    narrow(*goals.budget / *goals.price_per_gpu_hour * seconds_an_hour / world / steps,
           fmt::format("--budget {:.10g}", *goals.budget), slowest);
  return slowest;
}

}  // namespace shardscope::planner
