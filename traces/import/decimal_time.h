// Times of Chrome traces: microseconds in decimal text, to whole nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardscope {

struct DecimalTime {
  std::int64_t ns = 0;
  bool is_rounded = false;  ///< the text has more digits than nanoseconds
};

/// The nanoseconds of "1790857026.123" microseconds, exact: a double cannot hold the time since
/// 1970. More digits are rounded, half to even. Exponents are understood. None for what is no
/// number or beyond 2^62 ns (146 years).
std::optional<DecimalTime> microseconds_to_ns(std::string_view text);

}  // namespace shardscope
