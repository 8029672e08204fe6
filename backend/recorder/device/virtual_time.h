// Virtual time (`shardscope record --time model`): the host's clock, which moves by counted calls,
// and when each stream is done, by costs that `shardscope record` is asked for over a socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/recorder/device/device_state.h"

namespace shardscope::recorder {

/// Nanoseconds since the process began; only `--time model` moves it.
std::int64_t host_ns();
void host_waits_until(std::int64_t ns);
/// A look at an event or a clock takes a little, so that a loop of looks ends. Of threads that
/// never put anything on the device it takes nothing: how often they look differs from run to run.
void host_looks();

/// Is it a line of an operator, of a node of autograd, or of their end.
inline bool is_call(std::string_view line) {
  return line.starts_with("op\t") || line.starts_with("node\t") || line.starts_with("end\t");
}
/// An operator, a node of autograd or their end, as the observer writes them: "op 5 7 -1 0".
void see_call(std::string_view line);

/// A kernel whose work the running call's tensors say, once it ends.
void spend_on_kernel(Stream* stream);
/// Work whose cost does not depend on a call; `question` as docs/recording.md has it.
void spend(Stream* stream, const std::string& question);
void spend_on_graph(Stream* stream, const Graph* graph);

}  // namespace shardscope::recorder
