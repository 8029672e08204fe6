// LinkUse: how busy a collective keeps the links of a cluster.
#pragma once

#include <algorithm>

namespace shardscope {

/// Shares of what the group could use, 0 to 1, averaged over the collective's time: one that only
/// waits for hops keeps links nearly free.
struct LinkUse {
  double within = 0;  ///< of a GPU's links inside its node
  double across = 0;  ///< of its adapters
  bool operator==(const LinkUse&) const = default;
};
constexpr LinkUse operator+(const LinkUse& a, const LinkUse& b) {
  return {.within = a.within + b.within, .across = a.across + b.across};
}
constexpr LinkUse operator-(const LinkUse& a, const LinkUse& b) {
  return {.within = a.within - b.within, .across = a.across - b.across};
}

/// Factor on the time of collectives that run at once and together use `all`: links that are asked
/// for more than they have serve everyone less. At least 1.
/// Example: a reduce-scatter inside nodes and an all-reduce over rails, {0.9, 0} and {0, 1}: 1; two
/// gathers across nodes, {0.9, 1} each: 2.
constexpr double link_slowdown(const LinkUse& all) {
  return std::max({1.0, all.within, all.across});
}

}  // namespace shardscope
