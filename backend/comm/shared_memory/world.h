// The ranks of one host and the memory that they share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/base/memory_mapping.h"
#include "backend/comm/collective_call.h"
#include "backend/comm/shared_memory/descriptor_exchange.h"
#include "backend/comm/shared_memory/layout.h"
#include "backend/rendezvous/tcp_store.h"

namespace shardscope {

/// Every rank's control memory and arena, mapped here.
/// Nothing of it has a name in the file system: it is gone when the last process is.
class SharedMemoryWorld {
 public:
  /// Collective.
  SharedMemoryWorld(DescriptorExchange::Place place, TcpStore& store,
                    std::chrono::milliseconds deadline);
  SharedMemoryWorld(const SharedMemoryWorld&) = delete;
  SharedMemoryWorld& operator=(const SharedMemoryWorld&) = delete;

  int rank() const { return place_.rank; }
  int world() const { return place_.world; }

  RankHead& head(int rank) const { return at<RankHead>(rank, 0); }
  GroupSlot& group_slot(int rank, std::uint32_t group) const {
    return at<GroupSlot>(rank, layout_.group_slot(group));
  }
  SendSlot& send_slot(int rank, int to) const { return at<SendSlot>(rank, layout_.send_slot(to)); }
  ReceiveSlot& receive_slot(int rank, int from) const {
    return at<ReceiveSlot>(rank, layout_.receive_slot(from));
  }
  std::byte* send_staging(int rank) const { return control(rank) + layout_.send_staging(); }
  std::byte* staging(int rank, std::uint32_t group, std::uint32_t round) const {
    return control(rank) + layout_.staging(group, round & 1);
  }

  /// Collective, once: maps everyone's arena.
  void allocate_arena(Bytes size);
  std::span<std::byte> arena(int rank) const;
  /// Where `bytes` lie in this rank's arena; nothing when they are elsewhere.
  std::optional<std::uint64_t> arena_offset(std::span<const std::byte> bytes) const;

  /// Waits until `signal`, which a peer raises, reaches `target`; after `abort` throws Error with
  /// ExitCode::rank_lost.
  void wait(SignalWord& signal, std::uint32_t target, const CollectiveCall& call);
  /// Ends all waits, now and later. From any thread.
  void abort(const std::string& why);

  /// A number for a new group; throws Error when there are too many.
  std::uint32_t take_group();

 private:
  std::byte* control(int rank) const { return controls_[static_cast<std::size_t>(rank)].data(); }
  template <class T>
  T& at(int rank, std::size_t offset) const {
    return *reinterpret_cast<T*>(control(rank) + offset);
  }

  DescriptorExchange::Place place_;
  ControlLayout layout_;
  DescriptorExchange exchange_;
  std::vector<MemoryMapping> controls_;  ///< by rank
  std::vector<MemoryMapping> arenas_;    ///< by rank; empty before allocate_arena
  Bytes arena_size_;
  std::string why_aborted_;  ///< before `aborted_` is set
  std::atomic<bool> aborted_ = false;
};

}  // namespace shardscope
