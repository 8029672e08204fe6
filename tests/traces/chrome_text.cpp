#include "tests/traces/chrome_text.h"

#include <fmt/format.h>

#include "tests/traces/string_input.h"
#include "traces/import/kineto_reader.h"

namespace shardscope::samples {
ImportedTrace imported(const std::string& text) {
  StringInput input(text);
  return read_kineto(input, TextStore::temporary(), "trace.json", {});
}

std::string chrome_text(std::string_view events, std::string_view keys) {
  return fmt::format(R"({{"schemaVersion": 1, {}, "traceEvents": [{}]}})", keys, events);
}

std::string kernel(std::string_view name, int stream, std::string_view start,
                   std::string_view duration) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "args": {{"device": 0, "stream": {}}}}})",
      name, stream, start, duration, stream);
}

}  // namespace shardscope::samples
