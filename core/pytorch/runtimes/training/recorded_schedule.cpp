#include "core/pytorch/runtimes/training/recorded_schedule.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace shardscope::eager {
namespace {

/// Tensors that a runtime keeps beside the model's, where it has an engine of its own.
void name_held(ScheduleRecorder& recorder, TrainingRun& run) {
  const ModelEngine* engine = run.model().engine();
  if (engine == nullptr) return;
  for (const HeldTensor& held : engine->held())
    recorder.name_buffer(held.tensor, held.category, held.name);
}

void begin_phase_after(ScheduleRecorder& recorder, TrainingRun& run, Moment moment,
                       int micro_batch) {
  const TrainingSettings& settings = run.loop().settings();
  const bool last = micro_batch + 1 == settings.micro_batches;
  name_held(recorder, run);
  if (moment == Moment::start) recorder.begin_phase(Phase::forward, micro_batch);
  if (moment == Moment::loss) recorder.begin_phase(Phase::backward, micro_batch);
  if (moment == Moment::backward && !last) recorder.begin_phase(Phase::forward, micro_batch + 1);
  if (moment == Moment::backward && last) {
    recorder.note_gradients(run.model().parameters());
    recorder.begin_phase(settings.clips ? Phase::clip : Phase::optimizer, 0);
  }
  if (moment == Moment::clip) recorder.begin_phase(Phase::optimizer, 0);
  if (moment == Moment::step) {
    for (const Tensor& state : run.loop().optimizer_states())
      recorder.name_buffer(state, MemoryCategory::optimizer_states, "optimizer states");
    recorder.begin_phase(Phase::zero_grad, 0);
  }
}

/// Communicators in the order in which they were made: the world's, then those of a mesh.
void name_groups(ScheduleRecorder& recorder, const ProcessGroups& groups) {
  for (const ProcessGroup& group : groups.all())
    recorder.name_group(group, group.id == 0 ? "world" : fmt::format("group {}", group.id));
}

/// With the third iteration of a static graph.
constexpr std::array static_graph_steps{"1", "2", "3", "steady"};

}  // namespace

std::span<const char* const> steps_until_steady(const TrainingSetup& setup) {
  const auto* ddp = std::get_if<ddp::Options>(&setup.runtime);
  if (ddp != nullptr && ddp->buckets.static_graph) return static_graph_steps;
  return training_steps;
}

void record_steps(ScheduleRecorder& recorder, TrainingRun& run, const RecordedSteps& steps,
                  ProgramListener* listener) {
  name_groups(recorder, run.groups());
  recorder.name_model(run.model().module());
  if (Module* reference = run.loop().reference()) recorder.name_model(*reference);
  for (const Tensor& input : run.loop().inputs())
    recorder.name_buffer(input, MemoryCategory::inputs, "batch");
  for (const char* const& label : steps.labels) {
    const bool last = &label == &steps.labels.back();
    if (last && steps.repeats && recorder.repeat_step(label)) return;
    recorder.begin_step(label);
    run.loop().iteration(
        [&](Moment moment, int micro_batch) {
          begin_phase_after(recorder, run, moment, micro_batch);
          if (listener != nullptr) listener->on_program(recorder.schedule());
        },
        last ? 0 : steps.left_out);
  }
  recorder.end_step();
}

Schedule recorded_schedule(const shardscope::Model& model, const JsonValue& config,
                           const TrainingSetup& setup, const KernelDevice& device,
                           const RecordedSteps& steps, ProgramListener* listener) {
  ScheduleRecorder recorder(device, setup.session.device);
  if (!steps.shapes) recorder.leave_out_shapes();
  Session session(setup.session);
  session.observe(recorder);
  TrainingRun run(session, model, config, setup);
  record_steps(recorder, run, steps, listener);
  Schedule schedule = recorder.finish();
  schedule.rank = setup.rank;
  schedule.world = setup.world;
  schedule.assumed = setup.assumed;
  return schedule;
}

}  // namespace shardscope::eager
