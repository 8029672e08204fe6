// What the simulator says of a choice: the same as of its training by `simulate`.
#pragma once

#include <stop_token>

#include "sim/planner/choice.h"
#include "sim/planner/trial.h"
#include "sim/prediction/band.h"
#include "sim/prediction/prediction.h"

namespace shardscope::planner {

/// Of the choice's schedule (`schedule_of`), which may have been made for another machine.
/// `with_band`: as PredictedRun's.
Prediction predict(Schedule schedule, const Choice& choice, const TrialInputs& inputs,
                   bool with_band = true);

/// Throws as `schedule_of` does.
Prediction predict(const Choice& choice, const TrialInputs& inputs);

/// What is said of one choice, and what its step time hangs on.
struct ChoiceFigures {
  Summary summary;
  StepTimeMoves moves;
};

/// Of more than 8 micro-batches three, from which on memory is nearly the same. A pipeline keeps
/// all, since it holds several at once.
Choice with_played_micro_batches(Choice choice);

/// Of one choice, whatever the number of its micro-batches: those above are played with the
/// allocator. If that is not all of them, the time is the trial's, which is made of three as well.
/// Throws as `predict` does. A `stop` ends the recording, as simulate_fully's.
ChoiceFigures figures_of(const Choice& choice, const TrialInputs& inputs,
                         const std::stop_token& stop = {});
Summary summary_of(const Choice& choice, const TrialInputs& inputs,
                   const std::stop_token& stop = {});

}  // namespace shardscope::planner
