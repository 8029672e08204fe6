#include "sim/planner/answer/limits.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "sim/planner/choice_prediction.h"
#include "sim/planner/parallel.h"
#include "sim/planner/phases.h"
#include "sim/planner/pipeline_trial.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

bool fits_with_length(const Choice& choice, std::int64_t length, const Basis& basis,
                      const std::stop_token& stop) {
  const TrialInputs& on = basis.trials;
  Training training = on.training;
  training.length = length;
  const TrialInputs longer{on.model, on.config,        training,    on.profile,
                           on.costs, on.native_target, on.allocator};
  try {
    if (is_pipelined(choice)) return pipeline_fits(choice, longer);
    return predict(recording_of(choice, longer, stop), choice, longer, false).summary.fits;
  } catch (const Error&) {
    return false;
  }
}

void set_longest(const Candidate& candidate, const Basis& basis, const std::stop_token& stop,
                 Limits& limits) {
  const Model& model = basis.inputs.model;
  const std::int64_t asked = basis.inputs.question.training.length;
  const std::int64_t most = model.decoder         ? model.decoder->max_positions
                            : model.positions > 0 ? model.positions
                                                  : std::numeric_limits<std::int64_t>::max();
  const Choice choice = with_played_micro_batches(candidate.choice);
  const std::int64_t longest =
      longest_that_fits(asked, std::max(asked, most), [&](std::int64_t length) {
        return !stop.stop_requested() && fits_with_length(choice, length, basis, stop);
      });
  if (stop.stop_requested()) return;
  limits.longest = longest;
  limits.longer_untried = longest == std::min(2 * asked, std::max(asked, most));
}

void set_phases(const Candidate& candidate, const Basis& basis, Limits& limits) {
  if (candidate.choice.runtime == Runtime::native || is_pipelined(candidate.choice) ||
      candidate.choice.torchtitan || candidate.choice.tensor > 1)
    return;
  const Inputs& inputs = basis.inputs;
  const PytorchTraining training =
      pytorch_training(with_played_micro_batches(candidate.choice), basis.trials);
  const Bytes outside = candidate.summary.memory.outside;
  for (const PhaseMemory& phase : phases_of(training, inputs.model, inputs.config, inputs.profile,
                                            {.outside = outside, .host_per_node = {}}))
    limits.phases.push_back({phase.phase, phase.peak_reserved + outside, phase.fits});
}

}  // namespace

std::vector<TimeShare> time_shares(const StepTimeMoves& moves, const CostSpreads& spreads) {
  constexpr double least = 0.01;
  std::vector<TimeShare> shares;
  for (std::size_t group = 0; group < cost_group_count; ++group) {
    if (spreads.of_group[group] <= 0) continue;
    const double share = moves.of_group[group] / spreads.of_group[group];
    if (share >= least) shares.push_back({static_cast<CostGroup>(group), share});
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TimeShare& a, const TimeShare& b) { return a.share > b.share; });
  return shares;
}

std::int64_t longest_that_fits(std::int64_t asked, std::int64_t most,
                               const std::function<bool(std::int64_t)>& fits) {
  constexpr std::int64_t parts = 8;
  const auto length = [&](std::int64_t eighths) {
    return std::min(most, asked + asked * eighths / parts);
  };
  if (length(parts) == asked || fits(length(parts))) return length(parts);
  std::int64_t low = 0, high = parts;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (length(middle) == asked || fits(length(middle)) ? low : high) = middle;
  }
  return length(low);
}

Limits limits_of(const Candidate& candidate, const Basis& basis, const std::stop_token& stop) {
  Limits limits{.time = time_shares(candidate.moves, spreads_of(basis.inputs.profile))};
  const auto left = free_memory(candidate.summary);
  if (!left || stop.stop_requested()) return limits;
  const Bytes held = needed_memory(candidate.summary) - candidate.summary.memory.outside;
  if (held > Bytes{})
    limits.held_more = static_cast<double>(left->count) / static_cast<double>(held.count);
  // Each length of a pipeline of torchtitan takes seconds.
  if (is_rough(candidate.choice)) return limits;
  for_each_index(2, 0, [&](std::size_t part) {
    if (part == 0)
      set_longest(candidate, basis, stop, limits);
    else if (!stop.stop_requested())
      set_phases(candidate, basis, limits);
  });
  return limits;
}

}  // namespace shardscope::planner
