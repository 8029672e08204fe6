#include "sim/allocator/free_blocks.h"

#include <algorithm>

namespace shardscope {

std::size_t FreeBlocks::first_of(std::int64_t size) const {
  const auto found = std::partition_point(blocks_.begin(), blocks_.end(),
                                          [&](const FreeBlock& b) { return b.size < size; });
  return static_cast<std::size_t>(found - blocks_.begin());
}

void FreeBlocks::insert(const FreeBlock& block) {
  blocks_.insert(std::lower_bound(blocks_.begin(), blocks_.end(), block), block);
}

void FreeBlocks::erase(const FreeBlock& block) {
  blocks_.erase(std::lower_bound(blocks_.begin(), blocks_.end(), block));
}

}  // namespace shardscope
