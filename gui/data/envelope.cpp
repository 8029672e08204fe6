#include "gui/data/envelope.h"

#include <algorithm>

namespace shardscope::gui {
namespace {

using Heights = std::vector<std::optional<double>>;

/// The extreme of `reach` columns on both sides, up to the next empty one.
template <class Better>
Heights spread(const Heights& heights, std::size_t reach, Better better) {
  Heights result = heights;
  for (std::size_t i = 0; i < heights.size(); ++i) {
    if (!heights[i]) continue;
    const auto take = [&](std::size_t at) {
      if (!heights[at]) return false;
      result[i] = better(*result[i], *heights[at]);
      return true;
    };
    for (std::size_t k = 1; k <= reach && k <= i && take(i - k);) ++k;
    for (std::size_t k = 1; k <= reach && i + k < heights.size() && take(i + k);) ++k;
  }
  return result;
}

}  // namespace

Heights upper_envelope(const Heights& heights, std::size_t reach) {
  const auto more = [](double a, double b) { return std::max(a, b); };
  const auto less = [](double a, double b) { return std::min(a, b); };
  return spread(spread(heights, reach, more), reach, less);
}

}  // namespace shardscope::gui
