// A device's records as part of a window's trace.
#pragma once

#include "backend/profile/device_recording.h"
#include "backend/profile/instrument.h"
#include "core/schedule/schedule.h"
#include "traces/trace.h"

namespace shardscope {

/// Adds what `recording` says of the window's steps.
/// - Kernels, copies and sets of an operation: a span each under the operation's id, on the track
/// of
///   the stream that the schedule gives it (a graph runs it on any). Where the trace has a span of
///   that operation in that step already, they stand on a track of their own and count nowhere.
/// - Of copies and sets the bytes, as the measure "bytes_moved"; measures are then to be sorted.
/// - What no operation queued: on a track for each stream, "stream 23, not ours".
/// - The host's calls, waits and overhead: on tracks of the host, under an operation only where a
///   call launched what ran for it.
/// - Device memory that libraries took and did not give back: a counter each.
/// - What was lost or overlaps: in the recording's facts.
void add_recording(Trace& trace, const Schedule& schedule, const DeviceRecording& recording,
                   const MeasuredWindow& window);

}  // namespace shardscope
