// The second step of a training, written down from a recording of the first.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope::planner {

/// What the first step does and no later one: rows of the first forwards, in which stages meet and
/// units make what they gather into, and rows near its end, in which optimizer states are made. And
/// what the second step does beside all else: it lets go of what the first has left, and waits. The
/// same for any number of micro-batches.
struct FirstStepAlone {
  std::vector<std::uint32_t> first_rows;    ///< counted from the step's begin, ascending
  std::uint32_t lets_go_at = 0;             ///< rows that both steps have before it
  std::uint32_t last_rows = 0, behind = 0;  ///< rows near the end, and rows behind them
  /// Waits that the second step has beside them, for events of its own, by their number in the
  /// first step.
  struct Wait {
    std::uint32_t at = 0;  ///< rows that both steps have before it
    HostAction row;
    bool operator==(const Wait&) const = default;
  };
  std::vector<Wait> waits;
  bool operator==(const FirstStepAlone&) const = default;
};

/// Of a recording of two steps. None where the second differs from the first in anything else.
std::optional<FirstStepAlone> first_step_alone(const Schedule& two_steps);

/// Appends the second step to a recording of the first, to be played for its memory: its rows name
/// the operations, buffers and events of the first step again. The same training as that of
/// `alone`, but for the number of micro-batches. Whether there are such rows.
bool add_second_step(const FirstStepAlone& alone, Schedule& first_step);

}  // namespace shardscope::planner
