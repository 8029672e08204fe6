// Sums that are held at the ends of what an integer takes: a stranger's file may give any amounts.
#pragma once

#include <cstdint>
#include <limits>

#include "core/base/quantities.h"

namespace shardscope {

/// a + b, held.
inline std::int64_t held_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  using Limits = std::numeric_limits<std::int64_t>;
  return a < 0 ? Limits::min() : Limits::max();
}
inline Bytes held_sum(Bytes a, Bytes b) { return {held_sum(a.count, b.count)}; }

/// -bytes, held likewise.
inline Bytes held_negative(Bytes bytes) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return {bytes.count == -most - 1 ? most : -bytes.count};
}

}  // namespace shardscope
