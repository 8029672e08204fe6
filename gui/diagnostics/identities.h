// What must be equal to the byte and the nanosecond: checked, not assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gui/data/scenario.h"
#include "traces/analysis.h"

namespace shardscope::gui {

/// All that can be checked of a scenario: each a finding that holds, or is broken and says by how
/// much.
std::vector<Finding> identities_of(const Scenario& scenario);

/// span = compute + exposed communication + exposed copies + idle.
Finding times_sum(const Accounting& time, const std::string& where);

/// The accounting of `window` equals what the trace's spans come to when they are laid out in one
/// line: idle is what nothing covers.
Finding times_are_those_of(const Trace& trace, TimeWindow window, const Accounting& time,
                           const std::string& where);

/// Live bytes of a native prediction, or of its run = the buffers that are alive, by category at
/// every sample.
Finding live_bytes_are_buffers(const Trace& trace, const std::vector<PredictedBuffer>& buffers,
                               const std::string& where);

/// Payload of a step's collectives.
struct CollectiveBytes {
  std::int64_t times = 0;
  Bytes bytes;
  bool operator==(const CollectiveBytes&) const = default;
};
/// Of the collectives that begin in the window and that the trace has facts of.
CollectiveBytes collective_bytes(const Trace& trace, TimeWindow window);
Finding collectives_are_equal(const CollectiveBytes& predicted, const CollectiveBytes& profiled,
                              const std::string& where);

/// Ranks of a gather times what each gives = what each gets, of all gathers in the trace's facts.
Finding gathers_are_whole(const Trace& trace, const std::string& where);

/// Live bytes of each operation of the step on both sides of a native run; none where the sides
/// have no operation in common.
std::optional<Finding> live_bytes_are_equal(const Trace& predicted, const Trace& profiled,
                                            const std::string& where);

/// Live parameters between steps: the least that a step has.
Bytes resting_parameters(const Trace& trace, TimeWindow step);
/// `held`: of a rank; `shards`: of its buffers.
Finding parameters_are_shards(Bytes held, const std::vector<PredictedBuffer>& buffers, int world,
                              const std::string& where);

}  // namespace shardscope::gui
