// Chrome traces as text, for tests of their readers.
#pragma once

#include <string>
#include <string_view>

#include "traces/import/imported_trace.h"

namespace shardscope::samples {

/// Reads text as read_kineto does a file.
ImportedTrace imported(const std::string& text);

/// {"schemaVersion": 1, <keys>, "traceEvents": [<events>]}
std::string chrome_text(std::string_view events,
                        std::string_view keys = R"("distributedInfo": {"rank": 0})");

/// A kernel of `name` on device 0 and this stream; times in microseconds as text.
std::string kernel(std::string_view name, int stream, std::string_view start,
                   std::string_view duration);

}  // namespace shardscope::samples
