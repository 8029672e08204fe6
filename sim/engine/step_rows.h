// The rows of one step of a host program that its clocks see, with events counted from the step's
// beginning: what a StepProgram is made from.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

struct StepRow {
  HostActionKind kind = HostActionKind::dispatch;
  std::uint8_t lane = 0;
  bool previous = false;      ///< the event is of the step before
  std::uint32_t subject = 0;  ///< operation, event in its step, or times (of what takes the host
                              ///< alone: in a row)
};

/// Takes the host's time and nothing else.
inline bool takes_host_alone(HostActionKind kind) {
  return kind == HostActionKind::dispatch || kind == HostActionKind::hook;
}

/// A step that follows itself. An event of an earlier step is taken for that of the step before
/// which was recorded as long before that step's end; waits for older ones have no effect.
struct StepRows {
  std::vector<StepRow> rows;  ///< launches, dispatches, hooks and repetitions, records and waits
  std::uint32_t events = 0;
};

StepRows step_rows(const Schedule& schedule, const Step& step);

/// Micro-batches that must be recorded for more of them to be known: the first finds no gradients,
/// the last one reduces.
inline constexpr int told_micro_batches = 3;

/// The same step with `micro_batches` of them: those between the first and the last are as the
/// second of the `told_micro_batches` that `rows` has. What waits for the micro-batch before it
/// waits for that.
StepRows with_micro_batches(StepRows rows, const Schedule& schedule, int micro_batches);

}  // namespace shardscope
