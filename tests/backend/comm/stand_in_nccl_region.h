// The memory through which the ranks of a stand-in for NCCL reach each other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace shardscope::test {

/// Ranks of a communicator at most, and bytes that one of them may send at once.
inline constexpr int most_stand_in_ranks = 8;
inline constexpr std::size_t stand_in_bytes = std::size_t{32} << 20;

/// What a rank has called; all ranks of a communicator must have called the same.
struct StandInCall {
  int kind = 0;
  int type = 0;
  int root = 0;
  std::uint64_t bytes = 0;
  bool operator==(const StandInCall&) const = default;
};

/// How far two sides of an exchange are; each counts calls from the start.
struct StandInTurn {
  std::atomic<std::uint64_t> given{0};  ///< its bytes lie ready
  std::atomic<std::uint64_t> taken{0};  ///< it has read those of the others
  StandInCall call;
};

/// Shared by the processes that open it under one name, zeroed at first; pages that nobody touches
/// take no memory.
class StandInRegion {
 public:
  explicit StandInRegion(const std::string& name);
  ~StandInRegion();
  StandInRegion(const StandInRegion&) = delete;
  StandInRegion& operator=(const StandInRegion&) = delete;

  static constexpr int most_splits = 64;
  struct Shared {
    std::atomic<int> joined{0};
    std::array<StandInTurn, most_stand_in_ranks> turns;
    std::array<std::array<StandInTurn, most_stand_in_ranks>, most_stand_in_ranks> messages;
    /// By split and rank: the color plus one.
    std::array<std::array<std::atomic<int>, most_stand_in_ranks>, most_splits> colors;
  };
  Shared& shared() { return *shared_; }
  std::byte* bytes_of(int rank) { return area(rank); }
  std::byte* message(int from, int to) { return area(most_stand_in_ranks * (from + 1) + to); }
  /// The name is free again; who has opened it keeps it.
  void unlink() const;

 private:
  std::byte* area(int index) { return bytes_ + stand_in_bytes * static_cast<std::size_t>(index); }

  std::string name_;
  Shared* shared_ = nullptr;
  std::byte* bytes_ = nullptr;
};

}  // namespace shardscope::test
