#include "core/runtime/process_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shardscope::eager {

ProcessGroups::ProcessGroups(int world, int rank) {
  std::vector<int> ranks(static_cast<std::size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  groups_.push_back({.id = 0, .ranks = std::move(ranks), .rank = rank});
}

const ProcessGroup& ProcessGroups::add(std::vector<int> ranks) {
  const auto at = std::find(ranks.begin(), ranks.end(), rank());
  const int place = at == ranks.end() ? -1 : static_cast<int>(at - ranks.begin());
  groups_.push_back(
      {.id = static_cast<int>(groups_.size()), .ranks = std::move(ranks), .rank = place});
  return groups_.back();
}

std::vector<const ProcessGroup*> ProcessGroups::mesh(const std::vector<int>& shape) {
  std::vector<const ProcessGroup*> groups;
  int stride = world().size();
  for (const int size : shape) {
    stride /= size;
    if (size == world().size()) {
      groups.push_back(&world());
      continue;
    }
    const int first = rank() - rank() / stride % size * stride;
    std::vector<int> ranks;
    for (int i = 0; i < size; ++i) ranks.push_back(first + i * stride);
    groups.push_back(&add(std::move(ranks)));
  }
  return groups;
}

}  // namespace shardscope::eager
