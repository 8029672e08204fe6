// GPU memory that NCCL supplies, so that its network and peers reach it directly.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/comm/communicator.h"
#include "backend/comm/nccl/world.h"

namespace shardscope {

/// The arena of a communicator tree, registered with each of its communicators, and the staging
/// memory through which bytes of the host pass. Called by the thread that calls NCCL.
class NcclMemory : public std::enable_shared_from_this<NcclMemory> {
 public:
  explicit NcclMemory(std::shared_ptr<NcclWorld> world) : world_(std::move(world)) {}

  /// Zeroed. By ncclMemAlloc, and where that refuses (a driver without virtual memory management)
  /// by cudaMalloc, as a line on standard error says. Once.
  std::unique_ptr<Arena> allocate(Bytes size);
  /// Memory of the arena; everything else is the host's.
  bool in_arena(std::span<const std::byte> bytes) const;
  /// At least as large as the largest so far; the bytes of an earlier one are lost.
  std::span<std::byte> staging(std::size_t bytes);

  /// `comm` is part of the tree from now on, until it leaves.
  void join(ncclComm_t comm);
  void leave(ncclComm_t comm);

 private:
  class NcclArena;
  struct Member {
    ncclComm_t comm = nullptr;
    void* registration = nullptr;  ///< null: not registered
  };

  std::byte* take(Bytes size);
  void register_with(Member& member);
  void withdraw_from(Member& member);
  void give_back_arena();

  std::shared_ptr<NcclWorld> world_;
  std::unique_ptr<Arena> staging_;
  std::span<std::byte> arena_;
  std::unique_ptr<Arena> plain_arena_;  ///< where ncclMemAlloc refused
  bool was_given_ = false;
  std::vector<Member> members_;
};

}  // namespace shardscope
