#include "traces/import/snapshot_lifetimes.h"

#include <unordered_map>

namespace shardscope {

std::vector<BlockLifetime> block_lifetimes(const MemorySnapshot& snapshot, std::int64_t device) {
  std::vector<BlockLifetime> lifetimes;
  std::unordered_map<std::int64_t, std::size_t> live;  // by address: index into lifetimes
  const auto begin = [&](const LiveBlock& block) {
    live[block.address] = lifetimes.size();
    lifetimes.push_back({.block = block, .end = {}});
  };
  const auto end = [&](std::int64_t address, std::uint32_t event) {
    const auto at = live.find(address);
    if (at == live.end()) return;
    lifetimes[at->second].end = event;
    live.erase(at);
  };
  for (const LiveBlock& block : live_blocks(snapshot, device, -1)) begin(block);
  const SnapshotEvents* events = snapshot.events_of(device);
  const std::size_t count = events == nullptr ? 0 : events->count();
  const SnapshotAction completion = replay(snapshot, device).completion;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::int64_t address = events->address[i];
    if (events->action[i] == SnapshotAction::alloc) {
      end(address, i);
      begin({.size = {events->size[i]},
             .address = address,
             .stream = events->stream[i],
             .stack = events->stack[i],
             .event = i});
    } else if (events->action[i] == completion) {
      end(address, i);
    }
  }
  return lifetimes;
}

}  // namespace shardscope
