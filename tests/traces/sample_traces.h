// Hand-made traces whose figures can be worked out on paper.
#pragma once

#include "traces/trace.h"

namespace shardscope::samples {

/// Tracks of every sample: 0 host, 1 compute, 2 unshard, 3 reduce, 4 copy.
Trace empty_trace(TraceKind kind = TraceKind::profiled);

/// Adds a span of `span_class` on `track`, [start, end) in nanoseconds.
Span& add_span(Trace& trace, SpanClass span_class, int track, std::int64_t start_ns,
               std::int64_t end_ns);

/// Two steps of 100 us of two units on two ranks, times in microseconds since the step's begin:
///   unshard  [ 0, 20) all-gather block   id 0
///   compute  [15, 40) forward block      id 1
///   compute  [40, 70) backward block     id 2
///   reduce   [60, 90) reduce-scatter     id 3
///   copy     [85, 95) copy               id 4
///   compute  [95,100) optimizer, root    id 5
/// so that a step is 100 = compute 60 + exposed communication 35 + exposed copy 5 + idle 0,
/// communication 50, overlap 15. Step 2 begins at 100 us. Host launches 2 us before each operation
/// but the first. Memory: 1000 B parameters always; communication 400 B in [0, 40); activations 300
/// B in [15, 70); gradients 500 B in [40, 90). Peak 1000 + 300 + 500 = 1800 B at the backward (id
/// 2), 1700 B before.
Trace two_steps(TraceKind kind = TraceKind::profiled);

}  // namespace shardscope::samples
