// A parallel training played on a session of its own, and written down as a schedule.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/pipeline/action.h"
#include "core/pytorch/engine/kernel_scratch.h"
#include "core/pytorch/parallel/training.h"
#include "core/pytorch/runtimes/record/schedule_recorder.h"
#include "core/schedule/schedule.h"

namespace shardscope::eager::parallel {

struct RankPlace {
  int world = 1;
  int rank = 0;
};

/// Iterations up to the one that repeats.
inline constexpr std::array recorded_steps{"1", "2", "steady"};

/// A forward or backward of a stage and micro-batch, with what comes until the next one.
struct RecordedChunk {
  Action action;
  IndexRange operations, actions;  ///< of the schedule
};

/// Strategy and workload of the schedule are the caller's to fill in. The last of three steps or
/// more repeats the one before: it is written down and not run, where that can be. `listener`, if
/// any, is told at each forward and backward, and may end the recording by throwing. `chunks`, if
/// given, are those of the last step, of an axis pp.
Schedule recorded_training(const ParallelSettings& settings, const RankPlace& place,
                           const SessionSettings& session, const KernelDevice& device,
                           std::span<const char* const> steps = recorded_steps,
                           ProgramListener* listener = nullptr,
                           std::vector<RecordedChunk>* chunks = nullptr);

/// The same of one rank of every stage of an axis pp, the outermost one: those at `place`'s rank's
/// place in theirs.
std::vector<Schedule> recorded_stages(const ParallelSettings& settings, const RankPlace& place,
                                      const SessionSettings& session, const KernelDevice& device,
                                      std::span<const char* const> steps = recorded_steps);

}  // namespace shardscope::eager::parallel
