#include "sim/planner/choice_prediction.h"

#include <algorithm>
#include <utility>

#include "sim/planner/estimate.h"
#include "sim/planner/pipeline_trial.h"
#include "sim/planner/torchtitan_pipeline.h"

namespace shardscope::planner {
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

Prediction predict(Schedule schedule, const Choice& choice, const TrialInputs& inputs,
                   bool with_band) {
  if (choice.torchtitan)
    return predict_alone(std::move(schedule), torchtitan_pipeline(choice, inputs), inputs.profile,
                         with_band);
  if (choice.runtime != Runtime::native)
    return predict(std::move(schedule), pytorch_training(choice, inputs), inputs.model,
                   inputs.profile, with_band);
  PredictedRun run = native_run(schedule);
  run.with_band = with_band;
  return shardscope::predict(std::move(schedule), run, inputs.profile);
}

Prediction predict(const Choice& choice, const TrialInputs& inputs) {
  return predict(schedule_of(choice, inputs), choice, inputs);
}

Choice with_played_micro_batches(Choice choice) {
  if (!is_pipelined(choice) && choice.micro_batches > most_played) choice.micro_batches = played;
  return choice;
}

namespace {

ChoiceFigures played_figures(const Choice& choice, const TrialInputs& inputs,
                             const std::stop_token& stop) {
  const Choice few = with_played_micro_batches(choice);
  const bool has_many = few.micro_batches < choice.micro_batches;
  Prediction prediction = predict(recording_of(few, inputs, stop), few, inputs, false);
  ChoiceFigures figures{.summary = std::move(prediction.summary)};
  Summary& summary = figures.summary;
  if (!summary.out_of_memory) figures.moves = step_time_moves(prediction.schedule, inputs.profile);
  give_back(few, inputs, std::move(prediction.schedule));
  if (summary.out_of_memory) return figures;
  const StepTimeBand band = step_time_band(figures.moves);
  const double seconds = summary.step_time.seconds();
  summary.step_time_low = Duration::from_seconds(seconds * band.low_factor);
  summary.step_time_high = Duration::from_seconds(seconds * band.high_factor);
  if (has_many && summary.fits)
    restate(summary, try_out(choice, inputs, stop).time,
            static_cast<double>(choice.micro_batches) / played);
  return figures;
}

}  // namespace

ChoiceFigures figures_of(const Choice& choice, const TrialInputs& inputs,
                         const std::stop_token& stop) {
  if (is_pipelined(choice)) return figures_of_pipeline(choice, inputs, stop);
  if (inputs.findings == nullptr) return played_figures(choice, inputs, stop);
  const Bytes memory = inputs.profile.memory;
  if (auto known = inputs.findings->figures(choice, memory)) return std::move(*known);
  ChoiceFigures figures = played_figures(choice, inputs, stop);
  inputs.findings->keep(choice, memory, figures);
  return figures;
}

Summary summary_of(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop) {
  return figures_of(choice, inputs, stop).summary;
}

}  // namespace shardscope::planner
