// The schedule of a training under PyTorch: set-up, the first two steps and the one that repeats.
#pragma once

#include "core/runtime/schedule_recorder.h"
#include "core/runtime/training_run.h"
#include "core/schedule.h"

namespace shardscope::eager {

/// Plays the training on a session of its own and writes it down. Strategy and workload of the
/// schedule are the caller's to fill in. Throws as TrainingRun does.
Schedule recorded_schedule(const shardscope::Model& model, const JsonValue& config,
                           const TrainingSetup& setup, const KernelDevice& device = {});

/// Runs the loop's iterations 1, 2 and 3, which is the one that repeats, as steps "1", "2" and
/// "steady".
void record_steps(ScheduleRecorder& recorder, TrainingRun& run);

}  // namespace shardscope::eager
