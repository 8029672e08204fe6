// The free blocks of one pool: found by best fit, gone through in order.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/allocator/device_events.h"

namespace shardscope {

struct MemoryBlockTag;
/// A block while it is allocated; its number is used again afterwards.
using MemoryBlockId = Id<MemoryBlockTag>;

/// A free block in the order in which the allocator looks for one: the smallest that is large
/// enough, of several the one in the oldest segment, at the lowest address in it.
struct FreeBlock {
  std::int64_t size = 0;
  std::int64_t address = 0;
  MemoryBlockId id;

  auto operator<=>(const FreeBlock&) const = default;
};

/// Free blocks of one stream, kept in order in one array: a training step has some hundred at most.
class FreeBlocks {
 public:
  /// Place of the first block of at least `size`; `size()` if there is none.
  std::size_t first_of(std::int64_t size) const;
  std::size_t size() const { return blocks_.size(); }
  const FreeBlock& operator[](std::size_t place) const { return blocks_[place]; }
  std::span<const FreeBlock> all() const { return blocks_; }
  void insert(const FreeBlock& block);
  void erase(const FreeBlock& block);
  void erase_at(std::size_t place) {
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(place));
  }

 private:
  std::vector<FreeBlock> blocks_;
};

}  // namespace shardscope
