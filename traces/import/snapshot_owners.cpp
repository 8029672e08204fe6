#include "traces/import/snapshot_owners.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "traces/held_sum.h"

namespace shardscope {
namespace {

/// Sums by name, most bytes first.
class Owners {
 public:
  void add(const std::string& name, std::int64_t blocks, Bytes bytes) {
    MemoryOwner& owner = by_name_[name];
    owner.name = name;
    owner.blocks += blocks;
    owner.bytes = held_sum(owner.bytes, bytes);
  }

  std::vector<MemoryOwner> sorted() const {
    std::vector<MemoryOwner> owners;
    for (const auto& [name, owner] : by_name_) owners.push_back(owner);
    std::stable_sort(owners.begin(), owners.end(),
                     [](const MemoryOwner& a, const MemoryOwner& b) { return a.bytes > b.bytes; });
    return owners;
  }

 private:
  std::map<std::string, MemoryOwner> by_name_;
};

}  // namespace

std::vector<MemoryOwner> owners_by_frame(const MemorySnapshot& snapshot,
                                         std::span<const LiveBlock> blocks,
                                         std::string (*frame_of)(const MemorySnapshot&,
                                                                 std::uint32_t stack)) {
  std::unordered_map<std::uint32_t, MemoryOwner> by_stack;
  for (const LiveBlock& block : blocks) {
    MemoryOwner& owner = by_stack[block.stack];
    ++owner.blocks;
    owner.bytes = held_sum(owner.bytes, block.size);
  }
  Owners owners;
  for (const auto& [stack, owner] : by_stack)
    owners.add(frame_of(snapshot, stack), owner.blocks, owner.bytes);
  return owners.sorted();
}

}  // namespace shardscope
