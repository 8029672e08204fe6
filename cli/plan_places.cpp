#include "cli/plan_places.h"

#include <fmt/format.h>

#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/job/folder_lock.h"
#include "cli/figures.h"
#include "cli/job_settings.h"
#include "cli/prediction.h"
#include "cli/progress_line.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "sim/planner/answer/basis.h"
#include "sim/planner/choice_prediction.h"
#include "sim/planner/pipeline_trial.h"
#include "traces/run_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

/// With more of them in a step, a place leaves only the figures that the plan made, and no trace.
/// A trace of 32 of an 8-billion-parameter model takes 4 s and 20 MB.
constexpr int most_micro_batches = 8;
/// Of a pipeline, whose ranks have a part of each micro-batch.
constexpr int most_micro_batches_of_stages = 32;

/// As all places have them, whether an option or a file says so.
PytorchOptions with_settings_of(const planner::Training& training, PytorchOptions options) {
  const auto or_none = [](std::string_view name) {
    return name.empty() ? std::nullopt : std::optional<std::string>(name);
  };
  options.compile = or_none(name_of(training.compiled));
  options.float8 = or_none(name_of(training.float8));
  if (training.fine_tuning)
    options.fine_tuning.base_dtype = name_of(training.fine_tuning->base->dtype);
  return options;
}

/// From which `simulate --job` makes the same prediction.
void leave_job_of_place(const RunFolder& folder, const planner::Choice& choice,
                        const planner::Inputs& inputs, PlanOptions& options) {
  PytorchOptions pytorch = with_settings_of(inputs.question.training, options.pytorch);
  if (choice.runtime == Runtime::native) pytorch.compile = pytorch.float8 = std::nullopt;
  const JobSettings settings{options.job, options.sharding, pytorch, options.cluster};
  const int world = planner::world_of(choice);
  Job job = inputs.job;
  if (choice.runtime == Runtime::native) {
    job.strategy = planner::native_strategy(choice, inputs.model);
    job.pipeline = choice.pipeline;
    job.batch = choice.batch;
    job.accumulate = choice.micro_batches;
    // All places of a plan read the folder beside the chosen one's job.
    if (job.data.empty()) job.data = {fs::absolute(folder.root / "../../data").lexically_normal()};
    return leave_job(folder, std::move(job), world, settings, std::nullopt);
  }
  options.job.precision = name_of(choice.precision);
  options.sharding.use_orig_params =
      choice.runtime == Runtime::fsdp1 && planner::keeps_original_parameters(inputs.model);
  options.sharding.choice = fs::relative(folder.predicted_choice(), folder.root).string();
  leave_job(folder, std::move(job), world, settings, choice);
}

/// Of the first rank, as `simulate` leaves it; the traces of the others beside it.
void leave_stages(const RunFolder& folder, const planner::Candidate& candidate,
                  const planner::Basis& basis) {
  std::vector<Prediction> stages = planner::predict_stages(candidate.choice, basis.trials);
  stages.front().summary.margin = basis.inputs.margin;
  if (candidate.choice.micro_batches > most_micro_batches_of_stages)
    return write_summary(stages.front().summary, "simulate", folder.predicted_summary());
  write_prediction(stages.front(), "simulate", folder);
  const std::string title = planner::text_of(candidate.choice);
  write_figures({&stages.front().trace}, {nullptr}, title, folder);
  write_stages(stages, 0, folder);
  StageTraces traces;
  for (const Prediction& stage : stages) traces.predicted.push_back(&stage.trace);
  write_stages_figure(traces, title, folder);
}

void leave_place(const RunFolder& folder, const planner::Candidate& candidate,
                 const planner::Basis& basis, PlanOptions& options) {
  const planner::Inputs& inputs = basis.inputs;
  create_folder(folder.predicted_choice().parent_path());
  const FolderLock lock(folder.root);
  write_atomically(folder.hardware(), to_json(inputs.profile));
  leave_job_of_place(folder, candidate.choice, inputs, options);
  if (planner::is_pipelined(candidate.choice)) return leave_stages(folder, candidate, basis);
  if (candidate.choice.micro_batches > most_micro_batches)
    return write_summary(candidate.summary, "simulate", folder.predicted_summary());
  Prediction prediction = planner::predict(candidate.choice, basis.trials);
  prediction.summary.margin = inputs.margin;
  write_prediction(prediction, "simulate", folder);
  write_figures({&prediction.trace}, {nullptr}, planner::text_of(candidate.choice), folder);
}

/// What an earlier plan with more places left.
void remove_places_after(const fs::path& folder, std::size_t count) {
  for (std::size_t place = count + 1;; ++place) {
    const RunFolder old{folder / "places" / fmt::format("{}", place)};
    std::error_code error;
    if (!fs::exists(old.predicted_summary(), error)) return;
    if (fs::remove_all(old.root, error); error)
      throw Error({.where = old.root.string(), .what = error.message(), .code = ExitCode::outside});
  }
}

}  // namespace

void leave_places(const std::filesystem::path& folder, const planner::Answer& answer,
                  const planner::Inputs& inputs, PlanOptions options, const std::stop_token& stop) {
  ProgressLine line(options.output);
  // A place is weighed by its own settings, not by those of the file that the plan was given.
  options.sharding.accelerate = options.sharding.deepspeed = options.sharding.config = {};
  remove_places_after(folder, answer.candidates.size());
  const planner::Basis basis(inputs);
  for (const planner::Candidate& candidate : answer.candidates) {
    if (stop.stop_requested()) return;
    line.update(fmt::format("writing place {} of {}", candidate.place, answer.candidates.size()));
    leave_place(RunFolder{folder / "places" / fmt::format("{}", candidate.place)}, candidate, basis,
                options);
  }
}

}  // namespace shardscope
