// Medians.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/base/quantities.h"

namespace shardscope {

/// The middle value, of an even number the lower one of the two in the middle; Value{} of none.
/// Example: of 4, 1, 3, 2 it is 2.
template <class Value>
Value lower_median(std::vector<Value> values) {
  if (values.empty()) return {};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline double halfway(double a, double b) { return (a + b) / 2; }
inline Duration halfway(Duration a, Duration b) { return {(a.ns + b.ns) / 2}; }

/// The middle value, of an even number the mean of the two in the middle; Value{} of none.
/// Example: of 4.0, 1.0, 3.0, 2.0 it is 2.5.
template <class Value>
Value median(std::vector<Value> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : halfway(values[middle - 1], values[middle]);
}

}  // namespace shardscope
