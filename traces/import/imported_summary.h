// The summary of a run that somebody else recorded.
#pragma once

#include "traces/import/imported_trace.h"
#include "traces/import/trace_report.h"
#include "traces/summary.h"

namespace shardscope {

/// Of a rank without a device: what its host did takes the device's place in the accounting.
Trace as_device(Trace spans);

/// Figures of the steady step of `trace`, whose first device's (or host's) spans are `spans`; of
/// its whole where it names no steps. Memory is that of the report. What a trace does not say is
/// empty or 0 (precision, tokens); its strategy is "imported".
Summary imported_summary(const ImportedTrace& trace, const Trace& spans, const TraceReport& report);

}  // namespace shardscope
