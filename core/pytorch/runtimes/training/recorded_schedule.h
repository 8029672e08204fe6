// The schedule of a training under PyTorch: set-up, the first two steps and the one that repeats.
#pragma once

#include <array>
#include <span>

#include "core/pytorch/runtimes/record/schedule_recorder.h"
#include "core/pytorch/runtimes/training/training_run.h"
#include "core/schedule/schedule.h"

namespace shardscope::eager {

/// The first iterations of a loop, of which the third one repeats.
inline constexpr std::array training_steps{"1", "2", "steady"};

/// Iterations of a loop that are recorded.
struct RecordedSteps {
  std::span<const char* const> labels = training_steps;
  /// So many micro-batches, from the first on, are not run by all but the last iteration.
  int left_out = 0;
  bool shapes = true;  ///< Schedule::shapes, for readers alone
  /// The last iteration repeats the one before: it is written down and not run, where that can be.
  bool repeats = false;
};

/// The iterations up to the one that repeats. DDP rebuilds its buckets in the second one, of a
/// static graph, whose first backward only counts, in the third.
std::span<const char* const> steps_until_steady(const TrainingSetup& setup);

/// Plays the training on a session of its own and writes it down. Strategy and workload of the
/// schedule are the caller's to fill in. `listener`, if any, is told at each phase's end. Throws as
/// TrainingRun and the listener do.
Schedule recorded_schedule(const shardscope::Model& model, const JsonValue& config,
                           const TrainingSetup& setup, const KernelDevice& device = {},
                           const RecordedSteps& steps = {}, ProgramListener* listener = nullptr);

/// Runs an iteration of the loop for every step.
void record_steps(ScheduleRecorder& recorder, TrainingRun& run, const RecordedSteps& steps = {},
                  ProgramListener* listener = nullptr);

}  // namespace shardscope::eager
