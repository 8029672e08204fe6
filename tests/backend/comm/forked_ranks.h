// Real processes as ranks, for tests.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/rendezvous/environment.h"
#include "core/base/error.h"

namespace shardscope::testing {

/// How a rank's process ended.
struct RankOutcome {
  int exit_code = 0;
  int signal = 0;
  std::string message;  ///< of the exception that ended it

  bool operator==(const RankOutcome&) const = default;
};
void PrintTo(const RankOutcome& outcome, std::ostream* out);

/// Forks `ranks` processes that run `body` with the place of a rank whose store rank 0 can host,
/// and waits for them. An Error ends a rank with its code, another exception with 99.
std::vector<RankOutcome> run_ranks(int ranks,
                                   const std::function<ExitCode(const Environment&)>& body);
/// The same for a body that returns nothing.
template <class Body>
requires std::is_void_v<std::invoke_result_t<Body, const Environment&>> std::vector<RankOutcome>
run_ranks(int ranks, const Body& body) {
  return run_ranks(ranks,
                   std::function<ExitCode(const Environment&)>([&](const Environment& place) {
                     body(place);
                     return ExitCode::done;
                   }));
}

/// A port of the loopback interface that nobody uses now.
int free_port();

}  // namespace shardscope::testing
