#include "backend/train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <array>
#include <cmath>
#include <utility>

#include "backend/comm/shared_text.h"
#include "backend/train/load_state.h"
#include "backend/train/start_weights.h"
#include "core/base/error.h"
#include "core/model/read_model.h"
#include "core/model/trainable.h"
#include "core/native/learning_rate.h"
#include "core/native/native_schedule.h"
#include "core/native/native_step.h"
#include "core/native/pipeline_stages.h"
#include "core/native/resolved_strategy.h"

namespace shardscope {
namespace {

Model model_of(const Job& job) {
  Model model = read_model(job.model, {.class_name = {}, .dtype = Dtype::float32});
  freeze_all_but(model, job.trainable);
  return model;
}

/// Steps are counted from `start`.
BatchPlan usable_plan(const Job& job, const TrainingProgress& start, const Model& model,
                      const Schedule& schedule, const TokenStream& tokens) {
  const Mesh& mesh = schedule.strategy.mesh;
  const BatchPlan plan{.token_start = start.next_token,
                       .batch = job.batch,
                       .length = job.seq,
                       .micro_batches = job.accumulate,
                       .rank = data_parallel_rank(mesh, schedule.rank),
                       .ranks = mesh.replicate * mesh.shard,
                       .vocabulary = model.decoder ? model.decoder->vocabulary : 0};
  require_usable(tokens, plan, std::max<std::int64_t>(1, job.steps - start.step));
  return plan;
}

Schedule schedule_of(const Job& job, const Model& model, const Communicator& world,
                     const Device& device) {
  const Strategy strategy = resolved(job.strategy, world.size(), "strategy");
  const Workload workload{.batch = job.batch,
                          .length = job.seq,
                          .micro_batches = job.accumulate,
                          .optimizer = job.optimizer,
                          .clip = job.clip};
  return native_schedule({.model = model,
                          .strategy = strategy,
                          .workload = workload,
                          .pipeline = job.pipeline,
                          .memory_budget = job.memory_budget},
                         world.rank(), device.target());
}

TrainingProgress start_of(const Job& job, const Checkpoint* checkpoint) {
  if (checkpoint) return checkpoint->index().progress;
  return {.next_token = job.token_start, .seed = job.seed};
}

/// A NaN's sign says nothing.
std::string text_of(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

/// They differ from the rest: caches are cold, libraries set themselves up.
constexpr int first_steps = 2;

std::size_t recorded_steps(const Job& job) {
  return static_cast<std::size_t>(first_steps + job.profile_steps);
}

bool is_finite(const StepMetrics& metrics) {
  return std::isfinite(metrics.loss) && std::isfinite(metrics.gradient_norm);
}

Error not_finite(const StepMetrics& metrics, const std::string& more = {}) {
  return Error({.where = fmt::format("step {}", metrics.step),
                .what = fmt::format("the loss is {} and the gradient norm {}{}",
                                    text_of(metrics.loss), text_of(metrics.gradient_norm), more),
                .way_out = "lower lr.peak, warm up longer, or clip",
                .code = ExitCode::not_finite});
}

}  // namespace

Trainer::Trainer(const Job& job, Communicator& world, Device& device,
                 std::shared_ptr<Checkpoint> resume_from, const NextCheckpoint& next)
    : job_(job),
      resumed_from_(std::move(resume_from)),
      start_(start_of(job, resumed_from_.get())),
      model_(model_of(job)),
      tokens_(TokenStream::open(job.data, job.token_format)),
      schedule_(schedule_of(job, model_, world, device)),
      plan_(usable_plan(job, start_, model_, schedule_, tokens_)),
      executor_(schedule_, device, world,
                {.check = job.check,
                 .recorded_steps = recorded_steps(job),
                 .offload_folder = job.output}),
      inputs_(executor_.elements_of<std::int32_t>("tokens")),
      targets_(executor_.elements_of<std::int32_t>("targets")),
      start_weights_(resumed_from_ ? saved_parameters(resumed_from_, model_)
                                   : shardscope::start_weights(job, model_)),
      steps_done_(start_.step),
      skipped_steps_(start_.skipped_steps) {
  load(world, next);
  executor_.run_init();
}

void Trainer::load(Communicator& world, const NextCheckpoint& next) {
  const bool was_tried = resumed_from_ != nullptr;
  while (resumed_from_) {
    const std::optional<DamagedCheckpoint> damage = load_together(world);
    if (!damage) return;
    if (!next) throw *damage;
    begin_at(next(*damage));
  }
  // A damaged checkpoint may have filled them before its damage was met.
  if (was_tried) clear_optimizer_states(model_, executor_);
  load_start_weights(start_weights_, model_, executor_);
}

/// What the first rank that found any damage says of it; the same on all ranks. Where a rank fails
/// for another reason, all throw.
std::optional<DamagedCheckpoint> Trainer::load_together(Communicator& world) {
  constexpr std::uint8_t damaged = 1, refused = 16;  // its exit code is added
  std::uint8_t own = 0;
  Error::Parts parts;
  try {
    const auto begin = std::chrono::steady_clock::now();
    load_state(resumed_from_, model_, executor_);
    loading_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  } catch (const DamagedCheckpoint& error) {
    own = damaged;
    parts = error.parts();
  } catch (const Error& error) {
    own = static_cast<std::uint8_t>(refused + static_cast<int>(error.code()));
    parts = error.parts();
  }
  std::vector<std::uint8_t> found(static_cast<std::size_t>(world.size()));
  executor_.between_steps([&] {
    world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(found)));
  });
  const auto worst = std::ranges::max_element(found);
  if (*worst == 0) return std::nullopt;
  const auto first = static_cast<int>(worst - found.begin());
  for (std::string* text : {&parts.where, &parts.what, &parts.way_out})
    executor_.between_steps([&] { *text = shared_text(*text, first, world); });
  if (*worst == damaged) return DamagedCheckpoint(parts);
  parts.code = ExitCode{*worst - refused};
  throw Error(parts);
}

void Trainer::begin_at(std::shared_ptr<Checkpoint> checkpoint) {
  resumed_from_ = std::move(checkpoint);
  start_ = start_of(job_, resumed_from_.get());
  plan_ = usable_plan(job_, start_, model_, schedule_, tokens_);
  start_weights_ = resumed_from_ ? saved_parameters(resumed_from_, model_)
                                 : shardscope::start_weights(job_, model_);
  steps_done_ = start_.step;
  skipped_steps_ = start_.skipped_steps;
}

std::vector<UnitPlan> Trainer::unit_plans() const {
  return shardscope::unit_plans({.model = model_,
                                 .strategy = schedule_.strategy,
                                 .workload = schedule_.workload,
                                 .pipeline = job_.pipeline});
}

void Trainer::read_inputs() {
  read_step(tokens_, plan_, steps_done_ - start_.step, inputs_, targets_);
  executor_.write<std::int32_t>("tokens", inputs_);
  executor_.write<std::int32_t>("targets", targets_);
}

/// Times cost nothing where the host runs the kernels itself.
bool Trainer::is_timed(std::int64_t step) const {
  return executor_.device_memory().is_host() || step <= first_steps ||
         job_.steps - step < job_.profile_steps;
}

Trainer::StepResult Trainer::run_step(const StopRequests& requests, bool timed) {
  const std::int64_t begin_ns = monotonic_ns();
  if (!first_step_ns_) first_step_ns_ = begin_ns;
  read_inputs();
  StepResult result = run_once(requests, timed, begin_ns);
  if (!is_finite(result.metrics)) result = settled(result, timed, begin_ns);
  if (result.metrics.skipped) ++skipped_steps_;
  ++steps_done_;
  last_ = result.metrics;
  return result;
}

/// Of the inputs that lie there.
Trainer::StepResult Trainer::run_once(const StopRequests& requests, bool timed,
                                      std::int64_t begin_ns) {
  // Summed over ranks: the loss, which the step starts at 0, and what they request.
  std::array<double, 2> loss{0, to_sum(requests)};
  executor_.write<double>("loss", loss);
  const std::int64_t step = steps_done_ + 1;
  const double rate = learning_rate(job_.learning_rate, steps_done_, job_.steps);
  // Steps that changed nothing do not count in the optimizer's averages.
  executor_.run_step({.learning_rate = rate, .step = step - skipped_steps_},
                     timed || is_timed(step));

  std::array<double, 2> clip{};
  executor_.read<double>("loss", loss);
  executor_.read<double>("clip", clip);
  const std::int64_t end_ns = monotonic_ns();
  const auto seconds = [](std::int64_t ns) { return Duration{ns}.seconds(); };
  const StepMetrics metrics{
      .step = step,
      .loss = loss[0],
      .gradient_norm = clip[0],
      .learning_rate = rate,
      .elapsed_s = start_.elapsed_s + seconds(end_ns - *first_step_ns_),
      .tokens_per_s = static_cast<double>(tokens_per_step()) / seconds(end_ns - begin_ns)};
  return {.metrics = metrics, .requests = requests_of_sum(loss[1])};
}

/// What becomes of a step that was not finite; the same on all ranks, as its figures are.
Trainer::StepResult Trainer::settled(StepResult bad, bool timed, std::int64_t begin_ns) {
  // The optimizer goes by the norm: with a finite one it has changed the parameters.
  const bool is_undone = !std::isfinite(bad.metrics.gradient_norm);
  if (!is_undone || job_.on_not_finite == NotFinitePolicy::stop) throw not_finite(bad.metrics);
  if (job_.on_not_finite == NotFinitePolicy::skip) {
    bad.metrics.skipped = true;
    news_ += fmt::format("step {} is skipped: the loss is {} and the gradient norm {}\n",
                         bad.metrics.step, text_of(bad.metrics.loss),
                         text_of(bad.metrics.gradient_norm));
    return bad;
  }
  StepResult again = run_once({}, timed, begin_ns);
  again.requests = bad.requests;
  if (!is_finite(again.metrics))
    throw not_finite(again.metrics,
                     ", when run again, too: the data or the settings are the cause");
  news_ += fmt::format(
      "step {} gave the loss {} and the gradient norm {}, and {} and {} when run again: a fault of "
      "a machine (its memory or its processor); the run goes on with the second result\n",
      bad.metrics.step, text_of(bad.metrics.loss), text_of(bad.metrics.gradient_norm),
      text_of(again.metrics.loss), text_of(again.metrics.gradient_norm));
  return again;
}

TrainingProgress Trainer::progress() const {
  TrainingProgress progress = start_;
  if (steps_done_ == start_.step) return progress;
  progress.step = steps_done_;
  progress.skipped_steps = skipped_steps_;
  progress.next_token = start_.next_token + (steps_done_ - start_.step) * tokens_per_step();
  progress.data_tokens = tokens_.size();
  progress.loss = last_.loss;
  progress.gradient_norm = last_.gradient_norm;
  progress.learning_rate = last_.learning_rate;
  progress.elapsed_s = last_.elapsed_s;
  return progress;
}

}  // namespace shardscope
