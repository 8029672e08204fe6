// Phases of a step in a schedule, of torchtitan's loop.
#pragma once

#include "core/pytorch/runtimes/record/schedule_recorder.h"
#include "core/pytorch/runtimes/training/training_loop.h"

namespace shardscope::eager::parallel {

/// What comes after a moment of the loop. `Training` has settings(), parameters() and
/// optimizer_states().
template <typename Training>
void begin_phase_after(ScheduleRecorder& recorder, Training& training, Moment moment,
                       int micro_batch) {
  const auto& settings = training.settings();
  const bool last = micro_batch + 1 == settings.micro_batches;
  if (moment == Moment::start) recorder.begin_phase(Phase::forward, 0);
  if (moment == Moment::loss) recorder.begin_phase(Phase::backward, micro_batch);
  if (moment == Moment::backward && !last) recorder.begin_phase(Phase::forward, micro_batch + 1);
  if (moment == Moment::backward && last) {
    recorder.note_gradients(training.parameters());
    recorder.begin_phase(settings.clips ? Phase::clip : Phase::optimizer, 0);
  }
  if (moment == Moment::clip) recorder.begin_phase(Phase::optimizer, 0);
  if (moment == Moment::step)
    for (const Tensor& state : training.optimizer_states())
      recorder.name_buffer(state, MemoryCategory::optimizer_states, "optimizer states");
}

}  // namespace shardscope::eager::parallel
