// The keys beside the events of a Chrome trace of ours: what other tools ask for, and our own.
#pragma once

#include <string>
#include <vector>

#include "traces/chrome_fields.h"
#include "traces/trace.h"

namespace shardscope {

/// From the file's first brace to the comma before "traceEvents". `quoted_names` are the trace's
/// names as JSON strings.
void write_chrome_header(const Trace& trace, const GroupTable& groups,
                         const std::vector<std::string>& quoted_names, const TextSink& sink);

}  // namespace shardscope
