// What every rank lays out in its shared control memory for its peers to read. All of it is valid
// when zero.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backend/comm/shared_memory/signal_word.h"
#include "core/base/quantities.h"

namespace shardscope {

inline constexpr int shared_groups_limit = 256;  ///< groups of one job, each split included
inline constexpr std::size_t staging_bytes = 256 * 1024;  ///< half of a group's staging memory

/// Where the bytes are that a rank offers to its peers.
enum class Offered : std::uint32_t { nothing, in_staging, in_arena };

/// What a rank says when it arrives at a round of a collective, or sends.
struct Announcement {
  std::uint32_t operation = 0;  ///< CollectiveKind, compared between ranks
  Offered offered = Offered::nothing;
  std::uint32_t group = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;   ///< size of the whole operation, compared between ranks
  std::uint64_t offset = 0;  ///< in the arena
};

/// A rank's state in one group. Announcements alternate by the parity of the round.
struct alignas(128) GroupSlot {
  SignalWord round;
  Announcement announcement[2];
};

/// One direction between two ranks: the sender's side lies in the sender's memory, the receiver's
/// in the receiver's.
struct alignas(64) SendSlot {
  SignalWord sent;
  Announcement announcement;
};
struct alignas(64) ReceiveSlot {
  SignalWord received;
};

/// The head of a rank's control memory.
struct alignas(128) RankHead {
  std::atomic<std::uint32_t> next_group;  ///< rank 0's: groups given out
};

/// Offsets in a rank's control memory.
struct ControlLayout {
  int world = 1;

  std::size_t send_slot(int to) const { return sizeof(RankHead) + sizeof(SendSlot) * at(to); }
  std::size_t receive_slot(int from) const {
    return send_slot(world) + sizeof(ReceiveSlot) * at(from);
  }
  std::size_t group_slot(std::uint32_t group) const {
    return round_up(receive_slot(world), alignof(GroupSlot)) + sizeof(GroupSlot) * group;
  }
  std::size_t send_staging() const { return round_up(group_slot(shared_groups_limit), 4096); }
  std::size_t staging(std::uint32_t group, std::uint32_t half) const {
    return send_staging() + staging_bytes * (1 + 2 * std::size_t{group} + half);
  }
  Bytes size() const { return {static_cast<std::int64_t>(staging(shared_groups_limit, 0))}; }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static std::size_t round_up(std::size_t n, std::size_t unit) {
    return (n + unit - 1) / unit * unit;
  }
};

}  // namespace shardscope
