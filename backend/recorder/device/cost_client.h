// What work costs on the device that is simulated, as `shardscope record` says: its cost model runs
// in that process, and is asked over a socket. Each question is asked once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::recorder {

/// A line of fields with tabs between.
struct Question {
  std::string kind;
  std::vector<std::string> fields;
};
/// Nanoseconds; 0 where nobody answers, which is told once.
std::int64_t cost_ns(const Question& question);

/// What the host takes for an operation on a stream, and for an operator that issues none.
struct HostCosts {
  std::int64_t launch_ns = 0, dispatch_ns = 0;
};
const HostCosts& host_costs();

}  // namespace shardscope::recorder
