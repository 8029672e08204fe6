// What a trace of a schedule's run takes over from the schedule, predicted and profiled alike.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.h"
#include "traces/trace.h"

namespace shardscope {

/// What an operation's time counts as.
SpanClass span_class_of(OperationKind kind);

/// A trace without spans and memory: rank, world, names, facts of all operations, a track for every
/// stream in use in the order of `Stream`.
Trace start_trace(const Schedule& schedule, TraceKind kind);

/// The track of a stream, which the trace must have.
std::uint16_t track_of(const Trace& trace, Stream stream);

/// Live bytes between steps: the buffers that no operation allocates.
CategoryBytes resting_bytes(const Schedule& schedule);

}  // namespace shardscope
