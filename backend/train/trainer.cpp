#include "backend/train/trainer.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "backend/train/start_weights.h"
#include "core/base/error.h"
#include "core/model/read_model.h"
#include "core/model/trainable.h"
#include "core/native/learning_rate.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"

namespace shardscope {
namespace {

Model model_of(const Job& job) {
  Model model = read_model(job.model, {.class_name = {}, .dtype = Dtype::float32});
  freeze_all_but(model, job.trainable);
  return model;
}

BatchPlan usable_plan(const Job& job, const Model& model, const Communicator& world,
                      const TokenStream& tokens) {
  const BatchPlan plan{.token_start = job.token_start,
                       .batch = job.batch,
                       .length = job.seq,
                       .micro_batches = job.accumulate,
                       .rank = world.rank(),
                       .ranks = world.size(),
                       .vocabulary = model.decoder ? model.decoder->vocabulary : 0};
  require_usable(tokens, plan, job.steps);
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
  return native_schedule(model, strategy, workload, world.rank(), device.target());
}

/// A NaN's sign says nothing.
std::string text_of(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

/// They differ from the rest: caches are cold, libraries set themselves up.
constexpr int first_steps = 2;

std::size_t recorded_steps(const Job& job) {
  return static_cast<std::size_t>(first_steps + job.profile_steps);
}

void require_finite(const StepMetrics& metrics) {
  if (std::isfinite(metrics.loss) && std::isfinite(metrics.gradient_norm)) return;
  throw Error({.where = fmt::format("step {}", metrics.step),
               .what = fmt::format("the loss is {} and the gradient norm {}", text_of(metrics.loss),
                                   text_of(metrics.gradient_norm)),
               .way_out = "lower lr.peak, warm up longer, or clip",
               .code = ExitCode::not_finite});
}

}  // namespace

Trainer::Trainer(const Job& job, Communicator& world, Device& device)
    : job_(job),
      model_(model_of(job)),
      tokens_(TokenStream::open(job.data, job.token_format)),
      schedule_(schedule_of(job, model_, world, device)),
      plan_(usable_plan(job, model_, world, tokens_)),
      executor_(schedule_, device, world,
                {.check = job.check, .recorded_steps = recorded_steps(job)}),
      inputs_(executor_.elements_of<std::int32_t>("tokens")),
      targets_(executor_.elements_of<std::int32_t>("targets")),
      start_weights_(shardscope::start_weights(job, model_)) {
  load_start_weights(start_weights_, model_, executor_);
  executor_.run_init();
}

void Trainer::read_inputs() {
  read_step(tokens_, plan_, steps_done_, inputs_, targets_);
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
  // Summed over ranks: the loss, which the step starts at 0, and what they request.
  std::array<double, 2> loss{0, to_sum(requests)};
  executor_.write<double>("loss", loss);
  const double rate = learning_rate(job_.learning_rate, steps_done_, job_.steps);
  ++steps_done_;
  executor_.run_step({.learning_rate = rate, .step = steps_done_}, timed || is_timed(steps_done_));

  std::array<double, 2> clip{};
  executor_.read<double>("loss", loss);
  executor_.read<double>("clip", clip);
  const std::int64_t end_ns = monotonic_ns();
  const auto seconds = [](std::int64_t ns) { return Duration{ns}.seconds(); };
  const StepMetrics metrics{
      .step = steps_done_,
      .loss = loss[0],
      .gradient_norm = clip[0],
      .learning_rate = rate,
      .elapsed_s = seconds(end_ns - *first_step_ns_),
      .tokens_per_s = static_cast<double>(tokens_per_step()) / seconds(end_ns - begin_ns)};
  require_finite(metrics);
  return {.metrics = metrics, .requests = requests_of_sum(loss[1])};
}

}  // namespace shardscope
