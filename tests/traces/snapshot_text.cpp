#include "tests/traces/snapshot_text.h"

#include "tests/traces/pickle_text.h"
#include "tests/traces/string_input.h"
#include "traces/import/memory_snapshot_reader.h"

namespace shardscope::samples {

std::string frame(std::string_view file, int line, std::string_view name) {
  return pickled::dict({{"name", pickled::text(name)},
                        {"filename", pickled::text(file)},
                        {"line", pickled::integer(line)}});
}

std::string event(std::string_view action, std::int64_t address, std::int64_t size,
                  const std::vector<std::string>& frames,
                  const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::pair<std::string, std::string>> pairs{
      {"action", pickled::text(action)},
      {"addr", pickled::integer(address)},
      {"size", pickled::integer(size)},
      {"stream", pickled::integer(0)},
      {"time_us", pickled::integer(1'000'000 + address)},
      {"frames", pickled::list(frames)}};
  pairs.insert(pairs.end(), more.begin(), more.end());
  return pickled::dict(pairs);
}

std::string snapshot_bytes(const std::vector<std::string>& segments,
                           const std::vector<std::string>& events) {
  return pickled::whole(pickled::dict({{"segments", pickled::list(segments)},
                                       {"device_traces", pickled::list({pickled::list(events)})}}));
}

MemorySnapshot snapshot(const std::vector<std::string>& segments,
                        const std::vector<std::string>& events) {
  const std::string bytes = snapshot_bytes(segments, events);
  StringInput input(bytes);
  return read_memory_snapshot(input, "a.pickle");
}

}  // namespace shardscope::samples
