#include "traces/import/snapshot_growth.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "traces/held_sum.h"

namespace shardscope {
namespace {

using Rows = std::map<std::pair<std::string, std::int64_t>, MemoryGrowth>;

void add(const LiveBlocks& blocks, GrowthBy by, std::int64_t MemoryGrowth::*count,
         Bytes MemoryGrowth::*bytes, Rows& rows) {
  std::unordered_map<std::uint32_t, std::string> frames;  // by stack
  for (const LiveBlock& block : blocks.blocks) {
    const auto [frame, is_new] = frames.try_emplace(block.stack);
    if (is_new) frame->second = innermost_telling_frame(blocks.snapshot, block.stack);
    const Bytes size = by == GrowthBy::frame ? Bytes{} : block.size;
    MemoryGrowth& row = rows[{frame->second, size.count}];
    row.frame = frame->second;
    row.block = size;
    ++(row.*count);
    row.*bytes = held_sum(row.*bytes, block.size);
  }
}

}  // namespace

std::vector<MemoryGrowth> memory_growth(const LiveBlocks& before, const LiveBlocks& after,
                                        GrowthBy by) {
  Rows rows;
  add(before, by, &MemoryGrowth::blocks_before, &MemoryGrowth::before, rows);
  add(after, by, &MemoryGrowth::blocks_after, &MemoryGrowth::after, rows);
  std::vector<MemoryGrowth> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(), [](const MemoryGrowth& a, const MemoryGrowth& b) {
    return a.growth() > b.growth();
  });
  return sorted;
}

}  // namespace shardscope
