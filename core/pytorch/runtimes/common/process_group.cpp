#include "core/pytorch/runtimes/common/process_group.h"

#include <utility>

namespace shardscope::eager {

ProcessGroups::ProcessGroups(int world, int rank) {
  groups_.push_back({.id = 0, .ranks = Ranks::up_to(world), .rank = rank});
}

const ProcessGroup& ProcessGroups::add(Ranks ranks) {
  const auto place = ranks.place_of(rank());
  groups_.push_back({.id = static_cast<int>(groups_.size()),
                     .ranks = std::move(ranks),
                     .rank = place ? static_cast<int>(*place) : -1});
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
    groups.push_back(&add(Ranks::spaced(first, stride, static_cast<std::size_t>(size))));
  }
  return groups;
}

}  // namespace shardscope::eager
