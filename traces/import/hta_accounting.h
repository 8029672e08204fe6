// The breakdown of a rank's time as HolisticTraceAnalysis makes it.
#pragma once

#include <vector>

#include "traces/import/hta_events.h"
#include "traces/trace.h"

namespace shardscope {

/// Span is HTA's "kernel time", from the first begin to the end of the last stretch of events.
/// HTA's "non-compute" is span less compute and idle: here exposed communication (as far as it
/// goes) and, for the rest, exposed copies. Zero without events. Source: HolisticTraceAnalysis
/// 0.5.0, hta/analyzers/breakdown_analysis.py (get_temporal_breakdown), communication_analysis.py
/// (get_comm_comp_overlap) and hta/utils/utils.py (merge_kernel_intervals).
Accounting hta_accounting(const std::vector<HtaEvent>& events);

/// Length of the union of copies, in the same way.
Duration hta_copies(const std::vector<HtaEvent>& events);

}  // namespace shardscope
