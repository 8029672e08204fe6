#include "gui/data/what_if.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "core/schedule/samples.h"
#include "gui/data/trace_times.h"
#include "sim/engine/step_player.h"
#include "sim/hardware/builtin_profiles.h"
#include "sim/planner/choice_prediction.h"
#include "sim/planner/job_training.h"
#include "traces/predicted_buffers.h"

namespace shardscope::gui {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_kept = 6;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

ScenarioPointer scenario_of(const WhatIfSettings& settings, Prediction prediction) {
  auto scenario = std::make_shared<Scenario>();
  scenario->label = label_of(settings);
  Side side{.kind = SideKind::predicted};
  side.buffers = predicted_buffers(prediction.schedule);
  side.summary = std::move(prediction.summary);
  side.ranks = {std::make_shared<const Trace>(std::move(prediction.trace))};
  scenario->predicted = std::move(side);
  measure_times(*scenario);
  return scenario;
}

const JsonValue& no_config() {
  static const JsonValue config = JsonValue::parse("{}", "");
  return config;
}

/// What schedules and predictions of settings are made from, on a machine that outlives it.
class TrialOn {
 public:
  TrialOn(const HardwareProfile& machine, const WhatIfSettings& settings,
          const WhatIfInputs& inputs)
      : training_(training_on(machine, inputs)),
        costs_(machine),
        target_(machine.device == inputs.machine.device ? inputs.target
                                                        : Target{.host = host_role(machine)}),
        inputs_{.model = inputs.model,
                .config = inputs.config ? *inputs.config : no_config(),
                .training = training_,
                .profile = machine,
                .costs = costs_,
                .native_target = target_,
                .allocator = inputs.own ? inputs.own->training.allocator : AllocatorSettings()} {
    training_.length = settings.length;
  }
  TrialOn(const TrialOn&) = delete;
  TrialOn& operator=(const TrialOn&) = delete;
  const planner::TrialInputs& inputs() const { return inputs_; }

 private:
  static planner::Training training_on(const HardwareProfile& machine, const WhatIfInputs& inputs) {
    const planner::Training of_job = planner::training_of(inputs.job, machine);
    if (!inputs.own) return of_job;
    planner::Training training = inputs.own->shared;
    training.session.compute_capability = of_job.session.compute_capability;
    // Choices of the native runtime are made on CPUs, too.
    if (machine.device == "cuda") apply_free_memory(machine, inputs.model, training.fine_tuning);
    return training;
  }

  planner::Training training_;
  CostModel costs_;
  Target target_;
  planner::TrialInputs inputs_;
};

/// The run's own training with these settings, where all that they change is its sizes, its
/// checkpointing or the machine: units and the runtime's settings stay those of its file.
std::optional<planner::PytorchTraining> own_training(const WhatIfSettings& settings,
                                                     const HardwareProfile& machine,
                                                     const WhatIfInputs& inputs) {
  if (!inputs.own) return std::nullopt;
  const planner::Choice& start = inputs.start.choice;
  planner::Choice choice = settings.choice;
  const bool checkpoints_otherwise = choice.checkpointing != start.checkpointing;
  choice.batch = start.batch;
  choice.micro_batches = start.micro_batches;
  choice.reduces_every_micro_batch = start.reduces_every_micro_batch;
  choice.checkpointing = start.checkpointing;
  if (choice != start) return std::nullopt;
  planner::PytorchTraining training = inputs.own->training;
  eager::TrainingSetup& setup = training.setup;
  if (checkpoints_otherwise) {
    if (setup.fine_tuning) return std::nullopt;
    setup.checkpointing = eager::checkpointing_of(inputs.model, settings.choice.checkpointing);
  }
  const bool accumulates_otherwise =
      settings.choice.micro_batches != start.micro_batches ||
      settings.choice.reduces_every_micro_batch != start.reduces_every_micro_batch;
  if (accumulates_otherwise) {
    setup.loop.micro_batches = settings.choice.micro_batches;
    setup.loop.syncs_once = !settings.choice.reduces_every_micro_batch;
  }
  setup.loop.batch = settings.choice.batch;
  setup.loop.length = settings.length;
  if (!settings.cluster.empty())
    setup.session.compute_capability =
        planner::training_of(inputs.job, machine).session.compute_capability;
  apply_free_memory(machine, inputs.model, setup.fine_tuning);
  return training;
}

constexpr std::string_view units_of_planner =
    "runtime, strategy, ranks, units, prefetch, offload, precision or the checkpointing of "
    "adapters changed: the prediction takes each block as a unit, not the units of the run's file";

/// Whether the scratch of all of its kernels is known: `train` knows it, the GUI has the run's.
bool has_unmeasured_kernels(const Schedule& schedule, const WhatIfInputs& inputs) {
  const auto& known = inputs.measured_kernels;
  return std::any_of(schedule.kernels.begin(), schedule.kernels.end(), [&](const Kernel& kernel) {
    return std::find(known.begin(), known.end(), cost_key(kernel)) == known.end();
  });
}

/// Step times of one schedule on other machines.
class StepOn {
 public:
  explicit StepOn(const Schedule& schedule)
      : schedule_(schedule), program_(step_program(schedule)) {}
  Duration operator()(const HardwareProfile& machine) const {
    const CostModel costs(machine);
    return play_until_steady(program_, step_costs(schedule_, program_, costs, machine))
        .accounting.span;
  }

 private:
  const Schedule& schedule_;
  StepProgram program_;
};

std::int64_t largest_effect(const Sensitivity& row) {
  return std::max(std::abs(row.lower.ns), std::abs(row.higher.ns));
}

}  // namespace

HardwareProfile WhatIf::machine(const WhatIfSettings& settings) const {
  if (settings.cluster.empty()) return scaled(inputs_->machine, settings.scales);
  return scaled(find_hardware_profile(settings.cluster, "machine"), settings.scales);
}

WhatIf::SchedulePointer WhatIf::record(const WhatIfSettings& settings,
                                       const HardwareProfile& machine) const {
  const bool native = settings.choice.runtime == Runtime::native;
  if (!native && !inputs_->config)
    throw Error({.where = inputs_->job.model.string(),
                 .what = "PyTorch's operators follow from a model's config.json, and there is "
                         "none"});
  if (!native && machine.device != "cuda")
    throw Error({.where = machine.name,
                 .what = "no machine of GPUs, which PyTorch's runtimes are predicted on",
                 .way_out = "choose one of the ready clusters as machine"});
  if (const auto own = own_training(settings, machine, *inputs_))
    return std::make_shared<const Schedule>(
        planner::schedule_of(*own, inputs_->model, *inputs_->config));
  const TrialOn trial(machine, settings, *inputs_);
  return std::make_shared<const Schedule>(planner::schedule_of(settings.choice, trial.inputs()));
}

Prediction WhatIf::predict(const WhatIfSettings& settings, const HardwareProfile& machine,
                           const Schedule& schedule, bool with_band) const {
  if (const auto own = own_training(settings, machine, *inputs_))
    return planner::predict(schedule, *own, inputs_->model, machine, with_band);
  const TrialOn trial(machine, settings, *inputs_);
  return planner::predict(schedule, settings.choice, trial.inputs(), with_band);
}

WhatIf::Found WhatIf::schedule_of(const WhatIfSettings& settings, const HardwareProfile& machine) {
  const bool loads_by_memory = inputs_->own && inputs_->own->training.setup.fine_tuning;
  const Key key{settings.choice, settings.length, settings.cluster,
                loads_by_memory ? settings.scales.memory : 1};
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return {found->second, true};
    }
  }
  SchedulePointer schedule = record(settings, machine);
  const std::lock_guard lock(mutex_);
  kept_.emplace_front(key, schedule);
  if (kept_.size() > most_kept) kept_.pop_back();
  return {std::move(schedule), false};
}

WhatIfAnswer WhatIf::answer(const WhatIfSettings& settings, bool with_band,
                            const std::stop_token& stop) {
  WhatIfAnswer answer{.settings = settings, .scenario = {}, .notes = {}, .refusal = {}};
  const Clock::time_point start = Clock::now();
  try {
    const HardwareProfile profile = machine(settings);
    const Found found = schedule_of(settings, profile);
    answer.was_cached = found.was_there;
    if (stop.stop_requested()) return answer;
    if (settings.choice.runtime == Runtime::native &&
        has_unmeasured_kernels(*found.schedule, *inputs_))
      answer.notes.emplace_back("scratch of matrix products that the run had not is not counted");
    answer.scenario = scenario_of(settings, predict(settings, profile, *found.schedule, with_band));
    if (inputs_->own && inputs_->own->is_of_file && !own_training(settings, profile, *inputs_) &&
        settings.choice.runtime != Runtime::native)
      answer.notes.emplace_back(units_of_planner);
  } catch (const Error& error) {
    answer.refusal = error.what();
  }
  answer.elapsed_ms = milliseconds_since(start);
  return answer;
}

std::vector<Sensitivity> WhatIf::sensitivity(const WhatIfSettings& settings,
                                             const std::stop_token& stop) {
  std::vector<Sensitivity> rows;
  try {
    const SchedulePointer schedule = schedule_of(settings, machine(settings)).schedule;
    const StepOn step(*schedule);
    const Duration as_it_is = step(machine(settings));
    for (const MachineFigure& figure : machine_figures) {
      if (stop.stop_requested()) return {};
      if (figure.factor == &MachineScales::memory) continue;
      const auto with = [&](double factor) {
        WhatIfSettings turned = settings;
        turned.scales.*figure.factor *= factor;
        return step(machine(turned)) - as_it_is;
      };
      rows.push_back({figure.name, with(1 / sensitivity_factor), with(sensitivity_factor)});
    }
  } catch (const Error&) {
    return {};  // the prediction itself is refused, which says why
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Sensitivity& a, const Sensitivity& b) {
    return largest_effect(a) > largest_effect(b);
  });
  return rows;
}

}  // namespace shardscope::gui
