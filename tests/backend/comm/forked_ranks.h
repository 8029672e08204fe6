// Real processes as ranks, for tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/launch/environment.h"

namespace shardscope::testing {

/// How a rank's process ended.
struct RankOutcome {
  int exit_code = 0;
  int signal = 0;
  std::string message;  ///< of the exception that ended it

  bool operator==(const RankOutcome&) const = default;
};

/// Forks `ranks` processes that run `body` with the place of a rank whose store rank 0 can host,
/// and waits for them. An Error ends a rank with its code, another exception with 99.
std::vector<RankOutcome> run_ranks(int ranks, const std::function<void(const Environment&)>& body);

/// A port of the loopback interface that nobody uses now.
int free_port();

}  // namespace shardscope::testing
