#include "backend/comm/nccl/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/comm/collective_checks.h"
#include "backend/comm/nccl/library.h"
#include "backend/comm/nccl/memory.h"
#include "backend/comm/nccl/settings.h"
#include "backend/comm/nccl/world.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

CollectiveCall call_of(CollectiveKind kind, std::span<const std::byte> bytes) {
  return {kind, {static_cast<std::int64_t>(bytes.size())}};
}

/// Of those that the checks let pass.
ncclDataType_t nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return ncclFloat64;
    case Dtype::float32:
      return ncclFloat32;
    case Dtype::bfloat16:
      return ncclBfloat16;
    default:
      return ncclInt64;
  }
}

/// A sum as NCCL takes it: `count` elements of `type`.
struct Elements {
  ncclDataType_t type = ncclInt8;
  std::size_t count = 0;
};
Elements elements_of(std::span<const std::byte> bytes, Dtype dtype) {
  return {nccl_type(dtype), bytes.size() / static_cast<std::size_t>(size_of(dtype).count)};
}

/// A NCCL communicator, the ranks that belong to it, and the memory that it may reach.
class NcclGroup {
 public:
  NcclGroup(std::shared_ptr<NcclWorld> world, std::shared_ptr<NcclMemory> memory, ncclComm_t comm,
            std::vector<int> ranks)
      : world_(std::move(world)),
        memory_(std::move(memory)),
        comm_(comm),
        ranks_(std::make_shared<const std::vector<int>>(std::move(ranks))) {
    memory_->join(comm_);
    const auto own = std::ranges::find(*ranks_, world_->place().rank);
    rank_ = static_cast<int>(own - ranks_->begin());
  }
  ~NcclGroup() {
    memory_->leave(comm_);
    world_->leave(comm_);
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_->size()); }
  const std::vector<int>& ranks() const { return *ranks_; }
  NcclWorld& world() const { return *world_; }
  const std::shared_ptr<NcclWorld>& shared_world() const { return world_; }
  NcclMemory& memory() const { return *memory_; }
  const std::shared_ptr<NcclMemory>& shared_memory() const { return memory_; }
  ncclComm_t comm() const { return comm_; }

  /// Queues call(communicator, stream) on the selected stream.
  template <class Call>
  void queue(const CollectiveCall& what, Call call) const {
    world_->run(comm_, what, [&] { return call(comm_, world_->stream()); });
    world_->note_queued(what, ranks_);
  }

 private:
  std::shared_ptr<NcclWorld> world_;
  std::shared_ptr<NcclMemory> memory_;
  ncclComm_t comm_;
  GroupRanks ranks_;
  int rank_ = 0;
};

/// Takes bytes of the host to the device and back, for one call. All ranks make the same calls of
/// NCCL, wherever the bytes of each lie.
class Staging {
 public:
  Staging(const NcclGroup& group, const CollectiveCall& what, std::size_t bytes)
      : group_(group), what_(what), bytes_(group.memory().staging(bytes)) {}

  std::span<std::byte> bytes() const { return bytes_; }
  std::span<std::byte> part(int rank, std::size_t bytes) const {
    return bytes_.subspan(index(rank) * bytes, bytes);
  }

  void bring(std::span<const std::byte> from, std::span<std::byte> staged) const {
    DeviceMemory& memory = group_.world().memory();
    if (group_.memory().in_arena(from))
      memory.copy(staged.data(), from);
    else
      memory.copy_in(staged.data(), from);
  }
  /// Waits, with the deadline, for what brought the bytes.
  void fetch(std::span<const std::byte> staged, std::span<std::byte> to) const {
    DeviceMemory& memory = group_.world().memory();
    finish();
    if (group_.memory().in_arena(to))
      memory.copy(to.data(), staged);
    else
      memory.copy_out(to, staged.data());
  }
  void finish() const { group_.world().wait_for_stream(what_); }

 private:
  const NcclGroup& group_;
  CollectiveCall what_;
  std::span<std::byte> bytes_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclWorld> world, std::shared_ptr<NcclMemory> memory,
                   ncclComm_t comm, std::vector<int> ranks)
      : group_(std::move(world), std::move(memory), comm, std::move(ranks)) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string description() const override {
    const std::string variables = nccl_variables_text(process_variables());
    return fmt::format("nccl {}, {} ranks{}{}", nccl_version_text(), size(),
                       variables.empty() ? "" : ", ", variables);
  }

  std::unique_ptr<Arena> allocate_arena(Bytes size) override {
    check_arena(size, this->size(), group_.world().place().world);
    return group_.memory().allocate(size);
  }

  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    check_all_gather(in.size(), out.size(), size());
    if (in.empty()) return;
    const CollectiveCall what = call_of(CollectiveKind::all_gather, out);
    if (in_arena(in) && in_arena(out)) return gather(what, in, out);
    const Staging staging(group_, what, out.size());
    const std::span<std::byte> own = staging.part(rank(), in.size());
    staging.bring(in, own);
    gather(what, own, staging.bytes());
    staging.fetch(staging.bytes(), out);
  }

  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                      Dtype dtype) override {
    check_reduce_scatter(in.size(), out.size(), size(), dtype);
    if (out.empty()) return;
    const CollectiveCall what = call_of(CollectiveKind::reduce_scatter, in);
    if (in_arena(in) && in_arena(out)) return scatter(what, in, out, dtype);
    const Staging staging(group_, what, in.size());
    const std::span<std::byte> own = staging.part(rank(), out.size());
    staging.bring(in, staging.bytes());
    scatter(what, staging.bytes(), own, dtype);
    staging.fetch(own, out);
  }

  void all_reduce(std::span<std::byte> data, Dtype dtype) override {
    check_all_reduce(data.size(), dtype);
    const CollectiveCall what = call_of(CollectiveKind::all_reduce, data);
    in_place(what, data, [&](std::span<std::byte> bytes) { reduce(what, bytes, dtype); });
  }

  void broadcast(std::span<std::byte> data, int root) override {
    check_rank("broadcast", root, size());
    const CollectiveCall what = call_of(CollectiveKind::broadcast, data);
    in_place(what, data, [&](std::span<std::byte> bytes) {
      group_.queue(what, [&](ncclComm_t comm, cudaStream_t stream) {
        return nccl().broadcast(bytes.data(), bytes.data(), bytes.size(), ncclInt8, root, comm,
                                stream);
      });
    });
  }

  void send(std::span<const std::byte> data, int to) override {
    check_other_rank("send", to, rank(), size());
    const CollectiveCall what = call_of(CollectiveKind::send, data);
    const auto send_bytes = [&](std::span<const std::byte> bytes) {
      group_.queue(what, [&](ncclComm_t comm, cudaStream_t stream) {
        return nccl().send(bytes.data(), bytes.size(), ncclInt8, to, comm, stream);
      });
    };
    if (data.empty()) return;
    if (in_arena(data)) return send_bytes(data);
    const Staging staging(group_, what, data.size());
    staging.bring(data, staging.bytes());
    send_bytes(staging.bytes());
    staging.finish();
  }

  void receive(std::span<std::byte> data, int from) override {
    check_other_rank("receive", from, rank(), size());
    const CollectiveCall what = call_of(CollectiveKind::receive, data);
    const auto receive_bytes = [&](std::span<std::byte> bytes) {
      group_.queue(what, [&](ncclComm_t comm, cudaStream_t stream) {
        return nccl().receive(bytes.data(), bytes.size(), ncclInt8, from, comm, stream);
      });
    };
    if (data.empty()) return;
    if (in_arena(data)) return receive_bytes(data);
    const Staging staging(group_, what, data.size());
    receive_bytes(staging.bytes());
    staging.fetch(staging.bytes(), data);
  }

  void barrier() override {
    const CollectiveCall what{CollectiveKind::barrier, {}};
    reduce(what, group_.memory().staging(sizeof(std::int64_t)), Dtype::int64);
    group_.world().wait_for_stream(what);
  }

  std::unique_ptr<Communicator> split(int color) override {
    check_color(color);
    std::vector<int> colors(index(size()));
    const std::span<std::byte> all = std::as_writable_bytes(std::span(colors));
    all_gather(std::as_bytes(std::span(&color, 1)), all);
    std::vector<int> ranks;
    for (std::size_t peer = 0; peer < colors.size(); ++peer)
      if (colors[peer] == color) ranks.push_back(group_.ranks()[peer]);
    const ncclComm_t part =
        group_.world().make(group_.comm(), {CollectiveKind::split, {}}, [&](ncclComm_t* made) {
          return nccl().comm_split(group_.comm(), color, rank(), made, nullptr);
        });
    return std::make_unique<NcclCommunicator>(group_.shared_world(), group_.shared_memory(), part,
                                              std::move(ranks));
  }

  std::vector<int> ranks() const override { return group_.ranks(); }

  void wait() override { group_.world().wait_for_device(); }
  QueuedCollectives* queued() override { return &group_.world(); }

 private:
  bool in_arena(std::span<const std::byte> bytes) const { return group_.memory().in_arena(bytes); }

  /// Both on the device; `in` may be its own part of `out`.
  void gather(const CollectiveCall& what, std::span<const std::byte> in, std::span<std::byte> out) {
    group_.queue(what, [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl().all_gather(in.data(), out.data(), in.size(), ncclInt8, comm, stream);
    });
  }

  /// Both on the device; `out` may be its own part of `in`.
  void scatter(const CollectiveCall& what, std::span<const std::byte> in, std::span<std::byte> out,
               Dtype dtype) {
    const Elements part = elements_of(out, dtype);
    group_.queue(what, [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl().reduce_scatter(in.data(), out.data(), part.count, part.type, ncclSum, comm,
                                   stream);
    });
  }

  void reduce(const CollectiveCall& what, std::span<std::byte> data, Dtype dtype) {
    const Elements all = elements_of(data, dtype);
    group_.queue(what, [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl().all_reduce(data.data(), data.data(), all.count, all.type, ncclSum, comm,
                               stream);
    });
  }

  /// Calls work(bytes) for `data` where it lies in the arena, else for its copy on the device.
  template <class Work>
  void in_place(const CollectiveCall& what, std::span<std::byte> data, Work work) {
    if (data.empty()) return;
    if (in_arena(data)) return work(data);
    const Staging staging(group_, what, data.size());
    staging.bring(data, staging.bytes());
    work(staging.bytes());
    staging.fetch(staging.bytes(), data);
  }

  NcclGroup group_;
};

ncclUniqueId shared_id(int rank, const ShareBytes& share) {
  ncclUniqueId id{};
  if (rank == 0 && nccl().get_unique_id(&id) != ncclSuccess) {
    throw Error({.where = "communicator nccl",
                 .what = fmt::format("ncclGetUniqueId: {}", nccl().last_error(nullptr)),
                 .way_out = "see whether NCCL_SOCKET_IFNAME names a network interface",
                 .code = ExitCode::outside});
  }
  share(std::as_writable_bytes(std::span(&id, 1)));
  return id;
}

}  // namespace

bool has_nccl() { return true; }

std::unique_ptr<Communicator> make_nccl_communicator(const NcclPlace& place, Device& device,
                                                     const ShareBytes& share) {
  const ncclUniqueId id = shared_id(place.rank, share);
  auto world = std::make_shared<NcclWorld>(
      NcclWorld::Place{place.rank, place.world, place.deadline}, device);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  config.commName = "shardscope";
  const ncclComm_t all = world->make(nullptr, {CollectiveKind::join, {}}, [&](ncclComm_t* made) {
    return nccl().comm_init_rank(made, place.world, id, place.rank, &config);
  });
  auto memory = std::make_shared<NcclMemory>(world);
  std::vector<int> ranks;
  for (int rank = 0; rank < place.world; ++rank) ranks.push_back(rank);
  return std::make_unique<NcclCommunicator>(std::move(world), std::move(memory), all,
                                            std::move(ranks));
}

}  // namespace shardscope
