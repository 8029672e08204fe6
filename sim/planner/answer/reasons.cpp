#include "sim/planner/answer/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

/// The time that a rank of a pipeline waits for the others.
constexpr std::string_view bubble = "bubble";

struct Part {
  std::string_view name;
  Duration best, other;
  Duration more() const { return other - best; }
};

/// Where a rank's step time goes; of a pipeline in the mean over its ranks, which differ.
Accounting mean_time(const Summary& summary) {
  if (!summary.pipeline || summary.pipeline->ranks.empty()) return summary.time;
  Accounting sum;
  for (const StageSummary& rank : summary.pipeline->ranks) {
    sum.compute += rank.compute;
    sum.exposed_communication += rank.exposed_communication;
    sum.idle += rank.idle;
  }
  const auto ranks = static_cast<std::int64_t>(summary.pipeline->ranks.size());
  Accounting mean{.span = summary.time.span,
                  .compute = {sum.compute.ns / ranks},
                  .exposed_communication = {sum.exposed_communication.ns / ranks},
                  .exposed_copy = {},
                  .idle = {sum.idle.ns / ranks}};
  mean.exposed_copy =
      std::max(Duration{}, mean.span - mean.compute - mean.exposed_communication - mean.idle);
  return mean;
}

/// What of its time the slower one has more of.
Part largest_part(const Summary& of_best, const Summary& of_other) {
  const Accounting best = mean_time(of_best), other = mean_time(of_other);
  const Part parts[] = {
      {"compute", best.compute, other.compute},
      {"exposed communication", best.exposed_communication, other.exposed_communication},
      {"exposed copies", best.exposed_copy, other.exposed_copy},
      {of_other.pipeline ? bubble : "idle time", best.idle, other.idle}};
  return *std::max_element(std::begin(parts), std::end(parts),
                           [](const Part& a, const Part& b) { return a.more() < b.more(); });
}

/// What of two choices is laid side by side.
double compared(const Candidate& candidate, Objective objective) {
  if (objective == Objective::cost && candidate.gpu_hours > 0) return candidate.gpu_hours;
  return static_cast<double>(std::max<std::int64_t>(1, candidate.summary.step_time.ns));
}

std::string signed_memory(const Summary& best, const Summary& other) {
  const std::int64_t more = needed_memory(other).count - needed_memory(best).count;
  return fmt::format("{} {}", rounded_text(Bytes{std::abs(more)}), more > 0 ? "more" : "less");
}

}  // namespace

std::string why_not_best(const Summary& best, const Summary& other, Objective objective) {
  const double share = static_cast<double>(other.step_time.ns) /
                           static_cast<double>(std::max<std::int64_t>(1, best.step_time.ns)) -
                       1;
  if (objective == Objective::memory)
    return fmt::format("{} memory, {:+.1f}% step time", signed_memory(best, other), share * 100);
  const Part part = largest_part(best, other);
  std::string text = fmt::format("{:.1f}% slower", share * 100);
  constexpr double nothing = 0.0005;
  if (std::abs(share) < nothing) text = "as fast";
  if (share <= -nothing) text = fmt::format("{:.1f}% faster", -share * 100);
  if (share >= nothing && part.more().ns > 0)
    text += fmt::format(": {} more {}", rounded_text(part.more()), part.name);
  if (part.name == bubble && share >= nothing && part.more().ns > 0)
    text += fmt::format(" ({:.1f}% of its step)", other.pipeline->bubble_share * 100);
  if (needed_memory(best) == needed_memory(other)) return text + "; as much memory";
  return text + fmt::format("; {} memory", signed_memory(best, other));
}

void compare_with_best(const Candidate& best, Objective objective, Candidate& other) {
  const double ratio = compared(other, objective) / compared(best, objective);
  const StepTimeBand band = ratio_band(best.moves, other.moves);
  other.slower_share = ratio - 1;
  other.slower_low_share = ratio * band.low_factor - 1;
  other.slower_high_share = ratio * band.high_factor - 1;
  other.ties = objective == Objective::memory
                   ? needed_memory(best.summary) == needed_memory(other.summary)
                   : other.slower_low_share <= 0 && other.slower_high_share >= 0;
}

void explain_places(std::vector<Candidate>& candidates, Objective objective) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    candidate.place = static_cast<int>(i) + 1;
    if (i == 0) continue;
    const Candidate& best = candidates.front();
    candidate.why = why_not_best(best.summary, candidate.summary, objective);
    compare_with_best(best, objective, candidate);
  }
}

}  // namespace shardscope::planner
