#include "backend/comm/shared_memory/world.h"

#include <functional>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

/// How often a sleeping rank looks whether it was told to give up.
constexpr std::chrono::milliseconds look_interval{100};

std::vector<MemoryMapping> map_all(const std::vector<FileDescriptor>& files, Bytes size) {
  std::vector<MemoryMapping> mappings;
  for (const FileDescriptor& file : files) mappings.emplace_back(file, size);
  return mappings;
}

}  // namespace

SharedMemoryWorld::SharedMemoryWorld(DescriptorExchange::Place place, TcpStore& store,
                                     std::chrono::milliseconds deadline)
    : place_(place),
      layout_{.world = place.world},
      exchange_(place, store, deadline),
      controls_(map_all(exchange_.all_gather(memory_file("shardscope control", layout_.size())),
                        layout_.size())) {
  // Group 0 is all ranks.
  if (place_.rank == 0) head(0).next_group.store(1);
}

void SharedMemoryWorld::allocate_arena(Bytes size) {
  if (!arenas_.empty()) {
    throw Error({.where = "allocate_arena",
                 .what = "this job has its arena already",
                 .way_out = "allocate one arena for everything"});
  }
  arena_size_ = size;
  arenas_ = map_all(exchange_.all_gather(memory_file("shardscope arena", size)), size);
  arenas_[static_cast<std::size_t>(place_.rank)].prefer_huge_pages();
}

std::span<std::byte> SharedMemoryWorld::arena(int rank) const {
  return {arenas_[static_cast<std::size_t>(rank)].data(),
          static_cast<std::size_t>(arena_size_.count)};
}

std::optional<std::uint64_t> SharedMemoryWorld::arena_offset(
    std::span<const std::byte> bytes) const {
  if (arenas_.empty()) return std::nullopt;
  const std::span<const std::byte> mine = arena(place_.rank);
  const std::less<const std::byte*> before;
  if (before(bytes.data(), mine.data()) ||
      before(mine.data() + mine.size(), bytes.data() + bytes.size())) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes.data() - mine.data());
}

void SharedMemoryWorld::wait(SignalWord& signal, std::uint32_t target, const CollectiveCall& call) {
  if (signal.reached(target)) return;
  while (!signal.wait(target, look_interval)) {
    if (!aborted_.load(std::memory_order_acquire)) continue;
    throw Error({.where = fmt::format("rank {}", place_.rank),
                 .what = fmt::format("{}: {}", text_of(call), why_aborted_),
                 .way_out = {},
                 .code = ExitCode::rank_lost});
  }
}

void SharedMemoryWorld::abort(const std::string& why) {
  if (aborted_.load()) return;
  why_aborted_ = why;
  aborted_.store(true, std::memory_order_release);
}

std::uint32_t SharedMemoryWorld::take_group() {
  const std::uint32_t group = head(0).next_group.fetch_add(1);
  if (group >= static_cast<std::uint32_t>(shared_groups_limit)) {
    throw Error({.where = fmt::format("rank {}", place_.rank),
                 .what = fmt::format("a job can have {} groups", shared_groups_limit),
                 .way_out = "split once and keep the groups"});
  }
  return group;
}

}  // namespace shardscope
