// Writes a trace as Chrome trace JSON with Kineto's field names, so that Perfetto,
// HolisticTraceAnalysis and TensorBoard-like tools open it. What only we know stands under the key
// "shardscope"; chrome_reader.h reads it back.
#pragma once

#include <filesystem>
#include <string>

#include "traces/trace.h"

namespace shardscope {

/// Writes `trace` to `path`, gzip when the name ends in ".gz"; streamed through zlib, and never
/// half written. Device streams are pid = local rank, tid = track index + 1; host tracks are a
/// process of their own. Each device span has its launch on the host (our host span of the
/// operation, or a mark of 1 ns) tied to it by `correlation` and an ac2g flow. Times are
/// microseconds with three decimals since baseTimeNanoseconds: exact.
void write_chrome_trace(const Trace& trace, const std::filesystem::path& path);

/// The same as JSON text.
std::string chrome_trace_json(const Trace& trace);

}  // namespace shardscope
