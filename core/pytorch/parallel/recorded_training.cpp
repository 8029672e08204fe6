#include "core/pytorch/parallel/recorded_training.h"

#include <optional>
#include <string_view>

#include "core/pytorch/parallel/training_phases.h"

namespace shardscope::eager::parallel {
namespace {

void name_groups(ScheduleRecorder& recorder, const ProcessGroups& groups, const DeviceMesh& mesh) {
  for (const ProcessGroup& group : groups.all())
    recorder.name_group(group, group.id == 0 ? "world" : "dp_shard_cp");
  for (const MeshAxis& axis : mesh.axes())
    if (const ProcessGroup& group = mesh.group(axis.name); group.id != 0)
      recorder.name_group(group, axis.name);
}

void name_groups(ScheduleRecorder& recorder, const ProcessGroups& groups,
                 const ParallelTraining& training) {
  name_groups(recorder, groups, training.mesh());
}

void name_groups(ScheduleRecorder& recorder, const ProcessGroups& groups,
                 const MixtureTraining& training) {
  for (const ProcessGroup& group : groups.all())
    recorder.name_group(group, group.id == 0 ? "world" : "dp");
  for (const DeviceMesh* mesh : {&training.mesh(), &training.expert_mesh()})
    for (const MeshAxis& axis : mesh->axes())
      if (const ProcessGroup& group = mesh->group(axis.name); group.id != 0)
        recorder.name_group(group, axis.name);
}

void name_batch(ScheduleRecorder& recorder, const ParallelTraining& training) {
  for (const Tensor& input : training.inputs())
    recorder.name_buffer(input, MemoryCategory::inputs, "batch");
}
/// Each step has a batch of its own.
void name_batch(ScheduleRecorder&, const MixtureTraining&) {}

/// ParallelTraining lets gradients go at the end of a step, MixtureTraining where the next begins.
constexpr bool ends_with_zero_grad(const ParallelTraining&) { return true; }
constexpr bool ends_with_zero_grad(const MixtureTraining&) { return false; }

/// What comes between a stage's forwards and backwards belongs to the one before.
void begin_phase_of_stage(ScheduleRecorder& recorder, std::string_view what, int micro_batch) {
  if (what == "forward") recorder.begin_phase(Phase::forward, micro_batch);
  if (what == "backward") recorder.begin_phase(Phase::backward, micro_batch);
}

struct ChunkPlace {
  int stage = 0, micro_batch = 0;
};

std::optional<ActionKind> kind_of_chunk(std::string_view what) {
  if (what == "forward") return ActionKind::forward;
  if (what == "backward") return ActionKind::full_backward;
  if (what == "backward_input") return ActionKind::backward_input;
  if (what == "backward_weight") return ActionKind::backward_weight;
  return std::nullopt;
}

/// A chunk ends where the next one begins, the last one with its own work.
void note_chunk(ScheduleRecorder& recorder, std::string_view what, ChunkPlace place,
                std::vector<RecordedChunk>& chunks) {
  recorder.catch_up();
  const Schedule& schedule = recorder.schedule();
  const auto operations = static_cast<std::uint32_t>(schedule.operations.size());
  const auto actions = static_cast<std::uint32_t>(schedule.program.actions.size());
  if (!chunks.empty()) {
    chunks.back().operations.end = operations;
    chunks.back().actions.end = actions;
  }
  if (const auto kind = kind_of_chunk(what))
    chunks.push_back({.action = {*kind, place.stage, place.micro_batch},
                      .operations = {operations, operations},
                      .actions = {actions, actions}});
}

/// How a rank is recorded: see recorded_training.
struct Recording {
  RankPlace place;
  const SessionSettings& session;
  const KernelDevice& device;
  std::span<const char* const> steps;
  ProgramListener* listener;
  std::vector<RecordedChunk>* chunks;
};

/// The third step repeats the second. Chunks are those of a step that is run.
bool may_repeat(const Recording& how, const char* const& label) {
  constexpr std::size_t settled = 2;
  return how.chunks == nullptr && how.steps.size() > settled && &label == &how.steps.back();
}

template <class Training, class Settings>
Schedule recorded(const Settings& settings, const Recording& how) {
  ScheduleRecorder recorder(how.device, how.session.device);
  Session session(how.session);
  session.observe(recorder);
  ProcessGroups groups(how.place.world, how.place.rank);
  Training training(session, groups, settings);
  name_groups(recorder, groups, training);
  recorder.name_model(training.module());
  name_batch(recorder, training);
  for (const char* const& label : how.steps) {
    if (may_repeat(how, label) && recorder.repeat_step(label)) break;
    recorder.begin_step(label);
    if (how.chunks != nullptr) how.chunks->clear();
    // Here no destructor is at work, out of which nothing may be thrown.
    const auto tell = [&] {
      if (how.listener != nullptr) how.listener->on_program(recorder.schedule());
    };
    training.iteration(
        [&](Moment moment, int micro_batch) {
          tell();
          begin_phase_after(recorder, training, moment, micro_batch);
          if (moment == Moment::step && ends_with_zero_grad(training))
            recorder.begin_phase(Phase::zero_grad, 0);
        },
        [&](const char* what, int stage, int micro_batch) {
          tell();
          begin_phase_of_stage(recorder, what, micro_batch);
          if (how.chunks != nullptr) note_chunk(recorder, what, {stage, micro_batch}, *how.chunks);
        });
  }
  recorder.end_step();
  Schedule schedule = recorder.finish();
  schedule.rank = how.place.rank;
  schedule.world = how.place.world;
  return schedule;
}

}  // namespace

Schedule recorded_training(const ParallelSettings& settings, const RankPlace& place,
                           const SessionSettings& session, const KernelDevice& device,
                           std::span<const char* const> steps, ProgramListener* listener,
                           std::vector<RecordedChunk>* chunks) {
  const Recording how{place, session, device, steps, listener, chunks};
  return settings.mixture ? recorded<MixtureTraining>(*settings.mixture, how)
                          : recorded<ParallelTraining>(settings, how);
}

std::vector<Schedule> recorded_stages(const ParallelSettings& settings, const RankPlace& place,
                                      const SessionSettings& session, const KernelDevice& device,
                                      std::span<const char* const> steps) {
  const MeshAxis& outermost = settings.mesh.front();
  const int stages = outermost.name == "pp" ? outermost.size : 1;
  const int ranks = place.world / stages;
  std::vector<Schedule> schedules;
  for (int stage = 0; stage < stages; ++stage)
    schedules.push_back(recorded_training(
        settings, {.world = place.world, .rank = stage * ranks + place.rank % ranks}, session,
        device, steps));
  return schedules;
}

}  // namespace shardscope::eager::parallel
