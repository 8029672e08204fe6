// Why a step takes longer or shorter than another: compute, exposed communication and copies, idle.
#pragma once

#include <string>

#include "gui/data/strategy_rows.h"

namespace shardscope::gui {

/// "32 more collectives a step (18.6 MiB more) leave 0.51 ms more communication exposed, compute
/// takes 2.10 ms longer": the parts in the direction of the step's change that make at least a
/// fifth of it; "" of none.
std::string time_reason(const SideFigures& before, const SideFigures& after);

/// Why it may be as fast although it communicates more: how much of that is hidden. "" where it
/// does not.
std::string hiding_reason(const SideFigures& before, const SideFigures& after);

/// "communication 1.95 ms -> 8.50 ms, of which 71% hide behind compute (before: 0%) ...".
std::string communication_text(const SideFigures& before, const SideFigures& after);
/// "step 175 ms -> 174 ms: compute -2.06 ms, exposed communication +0.51 ms, ...", which sums.
std::string step_text(const SideFigures& before, const SideFigures& after);

}  // namespace shardscope::gui
