#include "core/pytorch/plans/zero_redundancy.h"

#include <algorithm>
#include <numeric>

namespace shardscope {

std::vector<std::vector<std::size_t>> zero_redundancy_partition(
    std::span<const std::int64_t> elements, int ranks) {
  std::vector<std::size_t> by_size(elements.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return elements[a] > elements[b]; });
  std::vector<std::vector<std::size_t>> owned(static_cast<std::size_t>(ranks));
  std::vector<std::int64_t> held(owned.size());
  for (const std::size_t index : by_size) {
    const auto least =
        static_cast<std::size_t>(std::min_element(held.begin(), held.end()) - held.begin());
    owned[least].push_back(index);
    held[least] += elements[index];
  }
  return owned;
}

}  // namespace shardscope
