// Writes traces as Perfetto's protobuf, for ui.perfetto.dev and its trace processor.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "traces/trace.h"

namespace shardscope {

/// Is `path` named as Perfetto names its traces: .pftrace or .perfetto-trace.
bool is_perfetto_name(const std::filesystem::path& path);

/// Writes the ranks' traces into one file, never half written. Each rank is a process with a track
/// for each of its own and counters of its memory: one for each category, and what is active and
/// reserved where the trace knows it. Spans that overlap lie on further tracks of the same name. A
/// host span and the device span that it launches are tied by a flow. Times are exact nanoseconds:
/// Unix time, or for traces without one, from the first span of all.
void write_perfetto_trace(std::span<const Trace> ranks, const std::filesystem::path& path);

/// The same as bytes.
std::string perfetto_trace(std::span<const Trace> ranks);

}  // namespace shardscope
