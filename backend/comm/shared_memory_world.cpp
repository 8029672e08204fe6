#include "backend/comm/shared_memory_world.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include <fmt/format.h>

#include "backend/launch/time_limit.h"
#include "core/error.h"

namespace shardscope {
namespace {

/// How often a sleeping rank looks whether its peers still live.
constexpr std::chrono::milliseconds watch_interval{100};

FileDescriptor own_process() {
  FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!process.valid()) {
    throw Error({.where = "shared memory between ranks",
                 .what = errno_text("pidfd_open"),
                 .way_out = "use a Linux kernel of 5.3 or newer",
                 .code = ExitCode::outside});
  }
  return process;
}

std::vector<MemoryMapping> map_all(const std::vector<FileDescriptor>& files, Bytes size) {
  std::vector<MemoryMapping> mappings;
  for (const FileDescriptor& file : files) mappings.emplace_back(file, size);
  return mappings;
}

}  // namespace

SharedMemoryWorld::SharedMemoryWorld(DescriptorExchange::Place place, TcpStore& store,
                                     std::chrono::milliseconds deadline)
    : place_(place),
      deadline_(deadline),
      layout_{.world = place.world},
      exchange_(place, store, deadline),
      processes_(exchange_.all_gather(own_process())),
      controls_(map_all(exchange_.all_gather(memory_file("shardscope control", layout_.size())),
                        layout_.size())) {
  // Group 0 is all ranks.
  if (place_.rank == 0) head(0).next_group.store(1);
}

SharedMemoryWorld::~SharedMemoryWorld() { head(place_.rank).left.store(1); }

void SharedMemoryWorld::allocate_arena(Bytes size) {
  if (!arenas_.empty()) {
    throw Error({.where = "allocate_arena",
                 .what = "this job has its arena already",
                 .way_out = "allocate one arena for everything"});
  }
  arena_size_ = size;
  arenas_ = map_all(exchange_.all_gather(memory_file("shardscope arena", size)), size);
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

void SharedMemoryWorld::wait(SignalWord& signal, std::uint32_t target, int peer,
                             const CollectiveCall& call) {
  if (signal.reached(target)) return;
  std::atomic<std::uint32_t>& waits_for = head(place_.rank).waits_for;
  waits_for.store(static_cast<std::uint32_t>(peer) + 1, std::memory_order_relaxed);
  const TimeLimit limit(deadline_);
  while (!signal.wait(target, watch_interval)) {
    const std::optional<Loss> loss = find_loss(peer, call);
    // The peer may have arrived first and ended then.
    if (signal.reached(target)) break;
    if (loss) fail(*loss);
    if (limit.passed()) {
      const int late = origin_of_delay(peer);
      fail({late, fmt::format("{}: rank {} did not come within {} s", text_of(call), late,
                              std::chrono::duration<double>(deadline_).count())});
    }
  }
  waits_for.store(0, std::memory_order_relaxed);
}

bool SharedMemoryWorld::process_ended(int rank) const {
  pollfd process{processes_[static_cast<std::size_t>(rank)].get(), POLLIN, 0};
  return ::poll(&process, 1, 0) > 0;
}

/// Follows who waits for whom from `peer` to the rank that waits for nobody.
int SharedMemoryWorld::origin_of_delay(int peer) const {
  for (int hops = 0; hops < place_.world; ++hops) {
    const std::uint32_t next = head(peer).waits_for.load(std::memory_order_relaxed);
    if (next == 0 || static_cast<int>(next) - 1 == place_.rank) return peer;
    peer = static_cast<int>(next) - 1;
  }
  return peer;
}

std::optional<SharedMemoryWorld::Loss> SharedMemoryWorld::find_loss(
    int peer, const CollectiveCall& call) const {
  // Whom the peer blames comes first: it is the cause of the peer's own end.
  if (const std::uint32_t blamed = head(peer).lost_rank.load(); blamed != 0) {
    const int lost = static_cast<int>(blamed) - 1;
    return Loss{lost, fmt::format("{}: rank {} was lost, says rank {}", text_of(call), lost, peer)};
  }
  if (head(peer).left.load() != 0) {
    return Loss{peer, fmt::format("{}: rank {} has left the job", text_of(call), peer)};
  }
  if (process_ended(peer)) {
    return Loss{peer, fmt::format("{}: the process of rank {} has died", text_of(call), peer)};
  }
  return std::nullopt;
}

void SharedMemoryWorld::fail(const Loss& loss) {
  head(place_.rank).lost_rank.store(static_cast<std::uint32_t>(loss.rank) + 1);
  throw Error({.where = fmt::format("rank {}", place_.rank),
               .what = loss.what,
               .way_out = fmt::format("see the log of rank {}", loss.rank),
               .code = ExitCode::rank_lost});
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
