#include "backend/profile/rank_clock.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "backend/executor/step_recorder.h"
#include "backend/watch/process_identity.h"

namespace shardscope {
namespace {

constexpr int round_trips = 32;

std::int64_t length_of(const ClockExchange& exchange) {
  return exchange.received_ns - exchange.sent_ns;
}

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

/// What the first rank of a host has found is true for all of them.
ClockOffset agreed(TcpStore& store, const std::string& key, const ClockOffset& own) {
  std::istringstream said(store.offer(key, fmt::format("{} {}", own.offset_ns, own.residual.ns)));
  ClockOffset offset;
  said >> offset.offset_ns >> offset.residual.ns;
  return offset;
}

}  // namespace

ClockOffset offset_of(std::span<const ClockExchange> exchanges) {
  const ClockExchange& best = *std::ranges::min_element(exchanges, {}, length_of);
  const std::int64_t length = length_of(best);
  return {.offset_ns = best.answered_ns - best.sent_ns - length / 2,
          .residual = {(length + 1) / 2}};
}

CommonClock common_clock(const Environment& environment, TcpStore* store, const std::string& name) {
  if (store == nullptr)
    return {.unix_minus_monotonic = own_offset(), .method = "the clock of the only rank"};
  const std::string key = fmt::format("{}/{}", name, host_boot());
  if (environment.on_one_host())
    return {.unix_minus_monotonic = agreed(*store, key, own_offset()),
            .method = "the monotonic clock that all ranks of the host share"};
  return {.unix_minus_monotonic = agreed(*store, key, offset_to(*store)),
          .method = fmt::format("each host's monotonic clock, set by the shortest of {} round "
                                "trips to the ranks' store",
                                round_trips)};
}

}  // namespace shardscope
