#include "core/pytorch/parallel/recorded_mixture.h"

#include "core/pytorch/parallel/training_phases.h"

namespace shardscope::eager::parallel {
namespace {

void name_groups(ScheduleRecorder& recorder, const ProcessGroups& groups,
                 const MixtureTraining& training) {
  for (const ProcessGroup& group : groups.all())
    recorder.name_group(group, group.id == 0 ? "world" : "dp");
  for (const DeviceMesh* mesh : {&training.mesh(), &training.expert_mesh()})
    for (const MeshAxis& axis : mesh->axes())
      if (const ProcessGroup& group = mesh->group(axis.name); group.id != 0)
        recorder.name_group(group, axis.name);
}

}  // namespace

Schedule recorded_mixture(const MixtureSettings& settings, const RankPlace& place,
                          const SessionSettings& session_settings, const KernelDevice& device,
                          std::span<const char* const> steps, ProgramListener* listener) {
  ScheduleRecorder recorder(device, session_settings.device);
  Session session(session_settings);
  session.observe(recorder);
  ProcessGroups groups(place.world, place.rank);
  MixtureTraining training(session, groups, settings);
  name_groups(recorder, groups, training);
  recorder.name_model(training.module());
  for (const char* label : steps) {
    recorder.begin_step(label);
    training.iteration([&](Moment moment, int micro_batch) {
      if (listener != nullptr) listener->on_program(recorder.schedule());
      begin_phase_after(recorder, training, moment, micro_batch);
    });
  }
  recorder.end_step();
  Schedule schedule = recorder.finish();
  schedule.rank = place.rank;
  schedule.world = place.world;
  return schedule;
}

}  // namespace shardscope::eager::parallel
