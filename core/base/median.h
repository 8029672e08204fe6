// The median that is one of the values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

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

}  // namespace shardscope
