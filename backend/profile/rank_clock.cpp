#include "backend/profile/rank_clock.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "backend/base/process_identity.h"
#include "backend/base/time_limit.h"
#include "backend/executor/step_recorder.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr int round_trips = 32;
constexpr std::chrono::milliseconds between_looks{1};

ClockOffset own_offset() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return {.offset_ns = unix_ns - monotonic_ns(), .residual = {}};
}

ClockOffset offset_to(TcpStore& store) {
  std::vector<ClockExchange> exchanges;
  for (int i = 0; i < round_trips; ++i) {
    ClockExchange exchange{.sent_ns = monotonic_ns()};
    exchange.answered_ns = store.clock_ns();
    exchange.received_ns = monotonic_ns();
    exchanges.push_back(exchange);
  }
  return offset_of(exchanges);
}

ClockOffset found_by(const Environment& environment, TcpStore& store) {
  return environment.on_one_host() ? own_offset() : offset_to(store);
}

/// What the first rank of a host has found is true for all of them.
ClockOffset agreed(const Environment& environment, TcpStore& store, const ClockMeeting& meeting) {
  // Two in turn: a rank that is slow to ask finds its own still there when the next one is said. In
  // between all ranks meet in a step.
  const std::string key = fmt::format("profile/clock/{}/{}", host_boot(), meeting.number % 2);
  const std::string head = fmt::format("{} ", meeting.number);
  if (environment.local_rank == 0) {
    const ClockOffset own = found_by(environment, store);
    store.set(key, fmt::format("{}{} {}", head, own.offset_ns, own.residual.ns));
    return own;
  }
  for (const TimeLimit limit(meeting.deadline); !limit.passed();) {
    const std::string said = store.peek(key).value_or("");
    if (!said.starts_with(head)) {
      std::this_thread::sleep_for(between_looks);
      continue;
    }
    ClockOffset offset;
    std::istringstream(said.substr(head.size())) >> offset.offset_ns >> offset.residual.ns;
    return offset;
  }
  throw Error({.where = "clocks of ranks",
               .what = "the first rank of this host did not say its own in time",
               .way_out = "raise timeout in the job",
               .code = ExitCode::rank_lost});
}

}  // namespace

CommonClock common_clock(const Environment& environment, TcpStore* store,
                         const ClockMeeting& meeting) {
  if (store == nullptr)
    return {.unix_minus_monotonic = own_offset(), .method = "the clock of the only rank"};
  const std::string method =
      environment.on_one_host()
          ? "the monotonic clock that all ranks of the host share"
          : fmt::format(
                "each host's monotonic clock, set by the shortest of {} round trips to the "
                "ranks' store",
                round_trips);
  return {.unix_minus_monotonic = agreed(environment, *store, meeting), .method = method};
}

}  // namespace shardscope
