// The accounting of windows that come in order of their begins, of which none is held.
#pragma once

#include <array>
#include <cstdint>

#include "traces/analysis.h"
#include "traces/intervals.h"
#include "traces/trace.h"

namespace shardscope {

/// As `account`, in as much memory for any number of windows.
class RunningAccount {
 public:
  /// Counts nothing but compute, communication and copies. No begin before an earlier one.
  void add(TimeWindow window, SpanClass span_class);
  /// Of all that was added. `window` has all of it in it.
  Accounting account(TimeWindow window);
  /// Lengths of the unions, after `account`.
  Duration compute() const { return {compute_}; }
  Duration communication() const { return {communication_}; }
  Duration copies() const { return {copies_}; }

 private:
  void advance(std::int64_t to);

  static constexpr std::int64_t long_ago = std::int64_t{-1} << 61;
  std::int64_t now_ = long_ago;
  /// When what runs now ends: compute, communication, copies.
  std::array<std::int64_t, 3> ends_{long_ago, long_ago, long_ago};
  std::int64_t compute_ = 0, communication_ = 0, copies_ = 0;
  std::int64_t either_ = 0;  ///< compute or communication
  std::int64_t any_ = 0, both_ = 0;
};

}  // namespace shardscope
