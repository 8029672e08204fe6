#include "sim/planner/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/native/native_schedule.h"
#include "core/schedule/model_states.h"
#include "sim/engine/rehearse.h"
#include "sim/engine/step_player.h"
#include "sim/engine/step_rows.h"
#include "sim/kernels/compiled_memory.h"
#include "sim/planner/estimate.h"
#include "sim/planner/first_step_listener.h"
#include "sim/planner/live_bytes.h"
#include "sim/planner/mesh_recordings.h"
#include "sim/planner/offload.h"
#include "sim/planner/pipeline_trial.h"
#include "sim/planner/stopped_recording.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "sim/prediction/outside_memory.h"
#include "sim/prediction/run_facts.h"

namespace shardscope::planner {
namespace {

Schedule native(const Choice& choice, const TrialInputs& inputs) {
  return native_schedule(native_training(choice, inputs.model, inputs.training), 0,
                         inputs.native_target);
}

bool is_zero3(const Choice& choice) {
  return choice.runtime == Runtime::deepspeed &&
         (choice.sharding == ShardingStrategy::full_shard ||
          choice.sharding == ShardingStrategy::hybrid_shard);
}

/// Micro-batches that are enough before the last step, see trial_steps.
constexpr int settling = 2;

/// Most runtimes repeat their second step; DDP builds its buckets anew in it, and ZeRO-3 goes by
/// the order of modules that it has seen in two micro-batches. Two are enough before the last step
/// for the others, too: FSDP1's rate limiter then has as many events as it will.
eager::RecordedSteps trial_steps(const Choice& choice) {
  static constexpr std::array soon{"1", "steady"};
  const bool settles_later =
      choice.runtime == Runtime::ddp || (is_zero3(choice) && choice.micro_batches == 1);
  return {.labels = settles_later ? std::span<const char* const>(eager::training_steps) : soon,
          .left_out = std::max(0, choice.micro_batches - settling),
          .shapes = false};
}

/// Whether ZeRO-3 has in the first step seen the order of its modules, and had under way as many
/// reductions and gathers as its host does not wait for.
bool zero3_settles_at_once(const Choice& choice, const TrialInputs& inputs) {
  if (choice.micro_batches < settling || choice.offload != Offload::none ||
      inputs.training.fine_tuning)
    return false;
  const eager::TrainingSetup setup = training_setup(choice, inputs.model, inputs.training);
  const DeepSpeedSettings& settings = std::get<eager::DeepSpeedSetup>(setup.runtime).settings;
  const std::int64_t bucket = std::max<std::int64_t>(1, settings.reduce_bucket_elements);
  constexpr std::int64_t enough = 3;
  std::int64_t reduced = 0, gathers = 0;
  for (const Parameter& parameter : inputs.model.parameters) {
    if (parameter.trainable) reduced += std::min(parameter.elements(), bucket);
    if (parameter.elements() > settings.param_persistence_elements) ++gathers;
  }
  return settling * (reduced / bucket) >= enough && gathers >= enough;
}

/// Whether the third step repeats the second row by row. FSDP1's rate limiter waits once two units
/// were freed: it does from the first step on where several micro-batches free more units than
/// that.
bool repeats_second_step(const Choice& choice, const TrialInputs& inputs) {
  if (choice.runtime == Runtime::ddp) return false;
  if (is_zero3(choice)) return zero3_settles_at_once(choice, inputs);
  if (choice.runtime != Runtime::fsdp1) return true;
  constexpr int enough_units = 3;
  const auto blocks = std::ssize(eager::checkpointing_of(inputs.model, {.every = 1}).modules);
  return choice.micro_batches > 1 && choice.blocks_per_unit > 0 &&
         blocks >= enough_units * choice.blocks_per_unit;
}

/// The same with as many micro-batches as have to be recorded.
Choice told(Choice choice) {
  if (choice.runtime != Runtime::native)
    choice.micro_batches = std::min(choice.micro_batches, told_micro_batches);
  return choice;
}

Bytes outside_of(const Schedule& schedule, const TrialInputs& inputs) {
  return schedule.memory == MemorySource::arena ? Bytes{} : outside_bytes(schedule, inputs.profile);
}

/// `micro_batches`: more than the schedule has; 0: as many.
Accounting time_of(const Schedule& schedule, const TrialInputs& inputs, int micro_batches) {
  const StepProgram program = step_program(schedule, micro_batches);
  const StepCosts costs = step_costs(schedule, program, inputs.costs, inputs.profile);
  return play_until_steady(program, costs).accounting;
}

/// Of one rank, as the native runtime lays it out (core/native/native_step.cpp) but for padding:
/// optimizer states, gradients, and the parameters, or the copy of them that an update leaves. Each
/// trained element of a rank's share takes 16 bytes in float32 with AdamW, and 18 in bf16_mixed.
Bytes native_host_states(const Choice& choice, const TrialInputs& inputs) {
  if (choice.offload == Offload::none) return {};
  const Precision precision = native_strategy(choice, inputs.model).precision;
  const PrecisionDtypes dtypes = dtypes_of(precision);
  const int shards = choice.sharding == ShardingStrategy::no_shard ? 1 : choice.mesh.shard;
  const auto share = [&](std::int64_t elements) { return (elements + shards - 1) / shards; };
  const Model& model = inputs.model;
  const std::int64_t trained = share(model.trainable_elements());
  Bytes bytes = Bytes{optimizer_bytes_per_element(inputs.training.optimizer, precision)} * trained +
                bytes_of(trained, dtypes.gradients);
  if (choice.offload == Offload::all)
    return bytes + bytes_of(share(model.parameter_elements()), dtypes.compute);
  // The host's update has parameters of its own, and leaves a copy where their dtype is another.
  return bytes + bytes_of(trained, dtypes.has_master() ? dtypes.compute : dtypes.updated);
}

}  // namespace

PytorchTraining pytorch_training(const Choice& choice, const TrialInputs& inputs) {
  return {.setup = training_setup(choice, inputs.model, inputs.training),
          .runtime = choice.runtime,
          .strategy = std::string(name_of(choice.sharding)),
          .precision = std::string(name_of(choice.precision)),
          .allocator = inputs.allocator};
}

Bytes host_memory_of_node(const Choice& choice, const TrialInputs& inputs) {
  if (choice.runtime == Runtime::native)
    return native_host_states(choice, inputs) * ranks_of_node(inputs.profile, choice.mesh.world());
  return host_states_of_node(inputs.model, training_setup(choice, inputs.model, inputs.training),
                             inputs.profile);
}

Schedule schedule_of(const Choice& choice, const TrialInputs& inputs,
                     const eager::RecordedSteps& steps, const std::stop_token& stop) {
  if (choice.runtime == Runtime::native) return native(choice, inputs);
  if (choice.torchtitan)
    return schedule_of_rank(torchtitan_pipeline(choice, inputs), 0,
                            {.steps = steps.labels, .stop = stop});
  StoppedRecording stopped(stop);
  return schedule_of(pytorch_training(choice, inputs), inputs.model, inputs.config, steps,
                     &stopped);
}

Bytes allocated_peak(const Schedule& schedule) {
  if (schedule.memory == MemorySource::arena) return arena_layout(schedule).size;
  const auto all = static_cast<std::uint32_t>(schedule.program.actions.size());
  return LiveBytes(schedule).pass({0, all}).most;
}

namespace {

MeshRecordings* shared_recordings(const Choice& choice, const TrialInputs& inputs) {
  if (choice.tensor > 1 || !mesh_only_sizes(choice, inputs.model)) return nullptr;
  if (inputs.recordings != nullptr) return inputs.recordings;
  return inputs.findings == nullptr ? nullptr : &inputs.findings->of_meshes();
}

/// Of the choice with its mesh, or from those of two others.
std::shared_ptr<const Schedule> recorded_between(const Choice& choice, const TrialInputs& inputs,
                                                 MeshRecordings& shared, std::string_view what,
                                                 const eager::RecordedSteps& steps,
                                                 const std::stop_token& stop) {
  const int world = choice.mesh.world();
  const auto with = [&](int shard) {
    Choice other = choice;
    other.mesh = {.replicate = world / shard, .shard = shard};
    return other;
  };
  return shared.of(
      {.name = fmt::format("{}; {} ranks; {} parameters; {}", text_of(with(1)), world,
                           inputs.model.parameters.size(), what),
       .smallest = *smallest_alike_group(choice, inputs.model),
       .largest = largest_group(world),
       .record = [&](int shard) { return schedule_of(with(shard), inputs, steps, stop); }},
      choice.mesh.shard);
}

/// Of a recording of the choice, which is eager but of torchtitan; none: it runs as it is.
CompileScope left_to_compile(const Choice& choice, const TrialInputs& inputs) {
  const bool is_recorded_so = choice.runtime == Runtime::native || choice.torchtitan;
  return is_recorded_so ? CompileScope::none : inputs.training.compiled;
}

/// Of an eager choice with all blocks, which is played as it is recorded.
bool may_be_kept(const Choice& choice, const TrialInputs& inputs) {
  return inputs.findings != nullptr && choice.runtime != Runtime::native && !choice.torchtitan &&
         left_to_compile(choice, inputs) == CompileScope::none;
}

/// All steps, as the allocator plays them.
eager::RecordedSteps all_steps(const Choice& choice, const TrialInputs& inputs) {
  return {.shapes = false, .repeats = repeats_second_step(choice, inputs)};
}

/// All steps of a choice that shares its recordings with other meshes, where the trial takes them,
/// too.
std::shared_ptr<const Schedule> whole_between(const Choice& choice, const TrialInputs& inputs,
                                              const std::stop_token& stop) {
  if (!may_be_kept(choice, inputs) || !repeats_second_step(choice, inputs)) return nullptr;
  MeshRecordings* shared = shared_recordings(choice, inputs);
  if (shared == nullptr) return nullptr;
  return recorded_between(choice, inputs, *shared, "all steps", all_steps(choice, inputs), stop);
}

std::shared_ptr<const Schedule> recorded_for_trial(const Choice& choice, const TrialInputs& inputs,
                                                   const std::stop_token& stop) {
  if (auto whole = whole_between(choice, inputs, stop)) return whole;
  if (MeshRecordings* shared = shared_recordings(choice, inputs))
    return recorded_between(choice, inputs, *shared, "trial", trial_steps(choice), stop);
  return std::make_shared<const Schedule>(schedule_of(choice, inputs, trial_steps(choice), stop));
}

Trial trial_of(const Schedule& schedule, const TrialInputs& inputs, int micro_batches) {
  return {.time = time_of(schedule, inputs, micro_batches),
          .allocated = allocated_peak(schedule),
          .outside = outside_of(schedule, inputs)};
}

/// Whether what is recorded to be played with the allocator serves the trial, too, and takes little
/// longer: a few micro-batches more, or nothing. Its last step is the one that the trial times.
bool serves_both(const Choice& choice, const TrialInputs& inputs) {
  if (!may_be_kept(choice, inputs) || shared_recordings(choice, inputs) != nullptr) return false;
  const eager::RecordedSteps steps = trial_steps(choice);
  const bool has_all = steps.left_out == 0 && steps.labels.size() == eager::training_steps.size();
  return has_all || repeats_second_step(choice, inputs);
}

Trial try_out_alone(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop) {
  const Choice recorded = told(choice);
  const int micro_batches =
      recorded.micro_batches == choice.micro_batches ? 0 : choice.micro_batches;
  const CompileScope scope = left_to_compile(choice, inputs);
  if (serves_both(recorded, inputs)) {
    Schedule schedule = recording_of(recorded, inputs, stop);
    const Trial trial = trial_of(schedule, inputs, micro_batches);
    inputs.findings->keep_recording(recorded, std::move(schedule));
    return trial;
  }
  std::shared_ptr<const Schedule> schedule = recorded_for_trial(recorded, inputs, stop);
  return scope == CompileScope::none ? trial_of(*schedule, inputs, micro_batches)
                                     : trial_of(compiled(*schedule, scope), inputs, micro_batches);
}

}  // namespace

Trial try_out(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop) {
  if (inputs.findings != nullptr)
    if (const auto known = inputs.findings->trial(choice)) return *known;
  const Trial trial = is_pipelined(choice) ? try_pipeline(choice, inputs, stop)
                                           : try_out_alone(choice, inputs, stop);
  if (inputs.findings != nullptr && !trial.is_part) inputs.findings->keep(choice, trial);
  return trial;
}

namespace {

FullSimulation judged(const Rehearsal& rehearsal, Bytes outside, const TrialInputs& inputs) {
  const Bytes memory = inputs.profile.memory;
  const Bytes needed = rehearsal.reserved + outside + inputs.margin;
  return {.reserved = rehearsal.reserved,
          .outside = outside,
          .fits = !rehearsal.out_of_memory && (memory == Bytes{} || needed <= memory)};
}

/// What is held at the highest, played on the device's memory, and whether that is all there is.
FullSimulation played_fully(const Schedule& schedule, const TrialInputs& inputs,
                            const BehindFirstStep& goes_on = {}) {
  const Bytes memory = inputs.profile.memory, outside = outside_of(schedule, inputs);
  AllocatorChoice allocator{.settings = inputs.allocator};
  if (memory > Bytes{}) allocator.memory = DeviceCapacity{.total = memory, .outside = outside};
  return judged(rehearse(schedule, inputs.profile, allocator, goes_on), outside, inputs);
}

/// Up to the end of the first step where that does not fit. A `stop` behind it ends it, too.
FullSimulation played_in_turn(const Schedule& schedule, const TrialInputs& inputs,
                              const std::stop_token& stop) {
  if (schedule.steps.size() < 2) return played_fully(schedule, inputs);
  bool is_part = false;
  FullSimulation result = played_fully(schedule, inputs, [&](const Rehearsal& first) {
    is_part = !judged(first, outside_of(schedule, inputs), inputs).fits;
    if (!is_part) refuse_if_stopped(stop);
    return !is_part;
  });
  result.is_part = is_part;
  return result;
}

}  // namespace

FullSimulation simulate_fully(const Choice& choice, const TrialInputs& inputs,
                              const std::stop_token& stop) {
  if (inputs.findings != nullptr)
    if (const auto known = inputs.findings->unfit(choice)) return *known;
  if (is_pipelined(choice)) return simulate_pipeline(choice, inputs, stop);
  const Choice recorded = told(choice);
  const CompileScope scope = left_to_compile(choice, inputs);
  if (may_be_kept(recorded, inputs))
    if (std::optional<Schedule> kept = inputs.findings->take_recording(recorded)) {
      const FullSimulation result = played_in_turn(*kept, inputs, stop);
      inputs.findings->keep_recording(recorded, std::move(*kept));
      return result;
    }
  if (const auto whole = whole_between(recorded, inputs, stop))
    return played_in_turn(*whole, inputs, stop);
  struct DoesNotFit {
    FullSimulation result;
  };
  FirstStepListener first([&](Schedule step) {
    step.world = world_of(choice);
    FullSimulation result = played_fully(compiled(std::move(step), scope), inputs);
    result.is_part = true;
    if (!result.fits) throw DoesNotFit{result};
  });
  try {
    Schedule schedule =
        recording_of(recorded, inputs, stop, inputs.profile.memory > Bytes{} ? &first : nullptr);
    const FullSimulation result = scope == CompileScope::none
                                      ? played_fully(schedule, inputs)
                                      : played_fully(compiled(schedule, scope), inputs);
    if (inputs.findings != nullptr && (result.fits || may_be_kept(recorded, inputs)))
      inputs.findings->keep_recording(recorded, std::move(schedule));
    return result;
  } catch (const DoesNotFit& stopped) {
    return stopped.result;
  }
}

Schedule recording_of(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop,
                      eager::ProgramListener* listener) {
  if (inputs.findings != nullptr)
    if (std::optional<Schedule> kept = inputs.findings->take_recording(choice))
      return std::move(*kept);
  if (choice.runtime == Runtime::native || choice.torchtitan) return schedule_of(choice, inputs);
  if (listener == nullptr)
    if (const auto whole = whole_between(choice, inputs, stop)) return *whole;
  StoppedRecording stopped(stop, listener);
  return schedule_of(pytorch_training(choice, inputs), inputs.model, inputs.config,
                     all_steps(choice, inputs), &stopped);
}

void give_back(const Choice& choice, const TrialInputs& inputs, Schedule schedule) {
  if (may_be_kept(choice, inputs) && shared_recordings(choice, inputs) == nullptr)
    inputs.findings->keep_recording(choice, std::move(schedule));
}

}  // namespace shardscope::planner
