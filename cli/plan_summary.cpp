#include "cli/plan_summary.h"

#include <algorithm>

namespace shardscope {
namespace {

constexpr int most_played = 8;
constexpr int played = 3;

Duration scaled(Duration time, double factor) {
  return {static_cast<std::int64_t>(static_cast<double>(time.ns) * factor)};
}

/// The same training with a step of another length, that takes `more` times as many tokens.
void restate(Summary& summary, const Accounting& time, double more) {
  const double longer = static_cast<double>(time.span.ns) /
                        static_cast<double>(std::max<std::int64_t>(1, summary.step_time.ns));
  summary.time = time;
  summary.step_time = time.span;
  summary.step_time_low = scaled(summary.step_time_low, longer);
  summary.step_time_high = scaled(summary.step_time_high, longer);
  summary.tokens_per_s *= more / longer;
  summary.tokens_per_s_per_device *= more / longer;
  if (summary.mfu_share) *summary.mfu_share *= more / longer;
  if (!summary.steps.empty()) summary.steps.back().time = time;
}

}  // namespace

Summary summary_of(const planner::Choice& choice, const PlanInputs& inputs,
                   const planner::TrialInputs& planning) {
  if (choice.micro_batches <= most_played) return predict(choice, inputs).summary;
  planner::Choice few = choice;
  few.micro_batches = played;
  Summary summary = predict(few, inputs).summary;
  if (summary.fits)
    restate(summary, planner::try_out(choice, planning).time,
            static_cast<double>(choice.micro_batches) / played);
  return summary;
}

}  // namespace shardscope
