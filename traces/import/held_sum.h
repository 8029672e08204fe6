// Sums of sizes that a stranger's file gives.
#pragma once

#include <limits>

#include "core/base/quantities.h"

namespace shardscope {

/// a + b, held at the ends of what an integer takes: a file may say anything.
inline Bytes held_sum(Bytes a, Bytes b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a.count, b.count, &sum)) return {sum};
  using Limits = std::numeric_limits<std::int64_t>;
  return {a.count < 0 ? Limits::min() : Limits::max()};
}

/// -bytes, held likewise.
inline Bytes held_negative(Bytes bytes) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return {bytes.count == -most - 1 ? most : -bytes.count};
}

}  // namespace shardscope
