#include "backend/profile/clock_offset.h"

#include <algorithm>

namespace shardscope {
namespace {

std::int64_t length_of(const ClockExchange& exchange) {
  return exchange.received_ns - exchange.sent_ns;
}

}  // namespace

ClockOffset offset_of(std::span<const ClockExchange> exchanges) {
  const ClockExchange& best = *std::ranges::min_element(exchanges, {}, length_of);
  const std::int64_t length = length_of(best);
  return {.offset_ns = best.answered_ns - best.sent_ns - length / 2,
          .residual = {(length + 1) / 2}};
}

}  // namespace shardscope
