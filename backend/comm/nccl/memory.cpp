#include "backend/comm/nccl/memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "backend/comm/nccl/library.h"
#include "backend/cuda/check.h"

namespace shardscope {

class NcclMemory::NcclArena final : public Arena {
 public:
  explicit NcclArena(std::shared_ptr<NcclMemory> memory) : memory_(std::move(memory)) {}
  ~NcclArena() override { memory_->give_back_arena(); }
  NcclArena(const NcclArena&) = delete;
  NcclArena& operator=(const NcclArena&) = delete;

  std::byte* data() const override { return memory_->arena_.data(); }
  Bytes size() const override { return {static_cast<std::int64_t>(memory_->arena_.size())}; }

 private:
  std::shared_ptr<NcclMemory> memory_;
};

/// Grows when nothing is under way: calls that need it block.
std::span<std::byte> NcclMemory::staging(std::size_t bytes) {
  const Bytes wanted{static_cast<std::int64_t>(bytes)};
  if (!staging_ || staging_->size() < wanted) {
    staging_.reset();
    staging_ = world_->memory().allocate(wanted);
  }
  return {staging_->data(), bytes};
}

std::unique_ptr<Arena> NcclMemory::allocate(Bytes size) {
  if (was_given_) {
    throw Error({.where = "allocate_arena",
                 .what = "this job has its arena already",
                 .way_out = "allocate one arena for everything"});
  }
  was_given_ = true;
  arena_ = {take(size), static_cast<std::size_t>(size.count)};
  auto arena = std::make_unique<NcclArena>(shared_from_this());
  cuda::check(cudaMemsetAsync(arena_.data(), 0, arena_.size(), world_->stream()),
              "cudaMemsetAsync");
  world_->wait_for_stream({CollectiveKind::allocate_arena, size});
  for (Member& member : members_) register_with(member);
  return arena;
}

std::byte* NcclMemory::take(Bytes size) {
  void* memory = nullptr;
  const auto bytes = std::max<std::size_t>(static_cast<std::size_t>(size.count), 1);
  const ncclResult_t result = nccl().mem_alloc(&memory, bytes);
  if (result == ncclSuccess) return static_cast<std::byte*>(memory);
  fmt::print(stderr, "rank {}: the arena is cudaMalloc's, as ncclMemAlloc answers {}\n",
             world_->place().rank, nccl().error_string(result));
  plain_arena_ = world_->memory().allocate(size);
  return plain_arena_->data();
}

bool NcclMemory::in_arena(std::span<const std::byte> bytes) const {
  const std::less_equal<const std::byte*> not_behind;
  return not_behind(arena_.data(), bytes.data()) &&
         not_behind(bytes.data() + bytes.size(), arena_.data() + arena_.size());
}

void NcclMemory::join(ncclComm_t comm) {
  members_.push_back({comm});
  register_with(members_.back());
}

void NcclMemory::leave(ncclComm_t comm) {
  const auto member = std::ranges::find(members_, comm, &Member::comm);
  withdraw_from(*member);
  members_.erase(member);
}

/// Without it collectives copy through NCCL's own buffers, and do as well otherwise.
void NcclMemory::register_with(Member& member) {
  if (arena_.empty()) return;
  const CollectiveCall what{CollectiveKind::allocate_arena,
                            {static_cast<std::int64_t>(arena_.size())}};
  world_->run(member.comm, what, [&] {
    return nccl().comm_register(member.comm, arena_.data(), arena_.size(), &member.registration);
  });
}

/// An aborted communicator has given everything back.
void NcclMemory::withdraw_from(Member& member) {
  void* const registration = std::exchange(member.registration, nullptr);
  if (!registration) return;
  world_->run_if_alive([&] { nccl().comm_deregister(member.comm, registration); });
}

void NcclMemory::give_back_arena() {
  world_->finish_abort();  // which still knows of it
  for (Member& member : members_) withdraw_from(member);
  if (!plain_arena_) nccl().mem_free(arena_.data());
  plain_arena_.reset();
  arena_ = {};
}

}  // namespace shardscope
