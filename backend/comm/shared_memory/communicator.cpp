#include "backend/comm/shared_memory/communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/comm/byte_range.h"
#include "backend/comm/collective_checks.h"
#include "backend/comm/pairwise_tree.h"
#include "backend/comm/shared_memory/world.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

using World = std::shared_ptr<SharedMemoryWorld>;

/// Up to this size every rank sums everything; above, each sums a part and gathers the others'
/// parts.
constexpr std::size_t small_all_reduce_bytes = 32 * 1024;
static_assert(small_all_reduce_bytes <= staging_bytes);

void copy(const std::byte* from, std::size_t bytes, std::byte* to) {
  if (from != to && bytes != 0) std::memmove(to, from, bytes);
}

class SharedArena final : public Arena {
 public:
  explicit SharedArena(World world) : world_(std::move(world)) {}
  std::byte* data() const override { return bytes().data(); }
  Bytes size() const override { return {static_cast<std::int64_t>(bytes().size())}; }

 private:
  std::span<std::byte> bytes() const { return world_->arena(world_->rank()); }
  World world_;
};

/// The members of a group and what they run in step: rounds. In a round every member arrives with
/// an announcement, and goes on when all have arrived. Staging memory and announcements alternate
/// by the parity of the round: what was laid down in round t may be overwritten in round t + 2, as
/// all have arrived at t + 1 by then, and so are done with t.
class Rounds {
 public:
  Rounds(World world, std::uint32_t group, std::vector<int> members)
      : world_(std::move(world)), group_(group), members_(std::move(members)) {
    rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), world_->rank()) -
                             members_.begin());
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  int member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  std::uint32_t group() const { return group_; }
  SharedMemoryWorld& world() const { return *world_; }
  const World& shared_world() const { return world_; }

  /// Where the next round's offered bytes go.
  std::byte* next_staging() const { return staging(rank_, round_ + 1); }

  void run(const CollectiveCall& call, Offered offered, std::uint64_t offset) {
    ++round_;
    GroupSlot& mine = world_->group_slot(world_->rank(), group_);
    mine.announcement[round_ & 1] = {.operation = static_cast<std::uint32_t>(call.kind),
                                     .offered = offered,
                                     .group = group_,
                                     .reserved = 0,
                                     .bytes = static_cast<std::uint64_t>(call.bytes.count),
                                     .offset = offset};
    mine.round.raise(round_);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      world_->wait(world_->group_slot(member(peer), group_).round, round_, call);
      check_same_call(peer, call);
    }
  }

  Offered offered(int peer) const { return announcement(peer).offered; }
  bool any(Offered offered_by) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (offered(peer) == offered_by) return true;
    }
    return false;
  }
  /// The start of what `peer` offers in this round.
  const std::byte* source(int peer) const {
    if (offered(peer) == Offered::in_staging) return staging(peer, round_);
    return world_->arena(member(peer)).data() + announcement(peer).offset;
  }

 private:
  const Announcement& announcement(int peer) const {
    return world_->group_slot(member(peer), group_).announcement[round_ & 1];
  }
  std::byte* staging(int peer, std::uint32_t round) const {
    return world_->staging(member(peer), group_, round);
  }

  void check_same_call(int peer, const CollectiveCall& call) const {
    const Announcement& theirs = announcement(peer);
    const CollectiveCall other{static_cast<CollectiveKind>(theirs.operation),
                               {static_cast<std::int64_t>(theirs.bytes)}};
    if (other.kind == call.kind && other.bytes == call.bytes) return;
    throw Error({.where = fmt::format("rank {}", member(rank_)),
                 .what = fmt::format("calls {}, while rank {} calls {}", text_of(call),
                                     member(peer), text_of(other)),
                 .way_out = "all ranks of a group must call the same collectives in one order",
                 .code = ExitCode::rank_lost});
  }

  World world_;
  std::uint32_t group_;
  std::vector<int> members_;
  int rank_ = 0;
  std::uint32_t round_ = 0;
};

/// What a rank gives to a collective: `parts` equal parts, one after another.
struct Input {
  std::span<const std::byte> bytes;
  int parts = 1;

  std::size_t part_bytes() const { return bytes.size() / static_cast<std::size_t>(parts); }
};

class SharedMemoryCommunicator final : public Communicator {
 public:
  explicit SharedMemoryCommunicator(Rounds rounds) : rounds_(std::move(rounds)) {
    sources_.resize(static_cast<std::size_t>(size()));
  }

  int rank() const override { return rounds_.rank(); }
  int size() const override { return rounds_.size(); }
  std::vector<int> ranks() const override { return rounds_.members(); }
  std::string description() const override {
    return fmt::format("shared_memory, {} ranks", size());
  }

  std::unique_ptr<Arena> allocate_arena(Bytes bytes) override {
    check_arena(bytes, size(), rounds_.world().world());
    barrier_round({CollectiveKind::allocate_arena, bytes});
    rounds_.world().allocate_arena(bytes);
    return std::make_unique<SharedArena>(rounds_.shared_world());
  }

  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    check_all_gather(in.size(), out.size(), size());
    const CollectiveCall call = call_of(CollectiveKind::all_gather, out);
    exchange(call, {in}, [&](std::size_t offset, std::size_t length, std::size_t) {
      for (int peer = 0; peer < size(); ++peer) {
        std::byte* const to = out.data() + index(peer) * in.size() + offset;
        copy(peer == rank() ? in.data() + offset : source(peer, offset), length, to);
      }
    });
  }

  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                      Dtype dtype) override {
    check_reduce_scatter(in.size(), out.size(), size(), dtype);
    const CollectiveCall call = call_of(CollectiveKind::reduce_scatter, in);
    exchange(call, {in, size()}, [&](std::size_t offset, std::size_t length, std::size_t stride) {
      for (int peer = 0; peer < size(); ++peer) {
        // In staging memory parts lie `stride` apart.
        sources_[index(peer)] = rounds_.offered(peer) == Offered::in_staging
                                    ? rounds_.source(peer) + index(rank()) * stride
                                    : rounds_.source(peer) + index(rank()) * out.size() + offset;
      }
      pairwise_sum(dtype, sources_, out.subspan(offset, length));
    });
  }

  void all_reduce(std::span<std::byte> data, Dtype dtype) override {
    check_all_reduce(data.size(), dtype);
    const CollectiveCall call = call_of(CollectiveKind::all_reduce, data);
    if (data.size() > small_all_reduce_bytes) {
      const auto offset = rounds_.world().arena_offset(data);
      rounds_.run(call, offset ? Offered::in_arena : Offered::nothing, offset.value_or(0));
      if (!rounds_.any(Offered::nothing)) return all_reduce_in_place(call, data, dtype);
    }
    for (std::size_t offset = 0; offset < data.size() || offset == 0; offset += staging_bytes) {
      const auto piece = data.subspan(offset, std::min(staging_bytes, data.size() - offset));
      copy(piece.data(), piece.size(), rounds_.next_staging());
      rounds_.run(call, Offered::in_staging, 0);
      collect_sources(0);
      pairwise_sum(dtype, sources_, piece);
    }
  }

  void broadcast(std::span<std::byte> data, int root) override {
    check_rank("broadcast", root, size());
    const CollectiveCall call = call_of(CollectiveKind::broadcast, data);
    const auto receive_piece = [&](std::size_t offset, std::size_t length, std::size_t) {
      if (rank() != root) copy(source(root, offset), length, data.data() + offset);
    };
    exchange(call, {data}, receive_piece, rank() == root);
  }

  void send(std::span<const std::byte> data, int to) override {
    check_other_rank("send", to, rank(), size());
    const CollectiveCall call = call_of(CollectiveKind::send, data);
    SharedMemoryWorld& world = rounds_.world();
    const int receiver = rounds_.member(to);
    SendSlot& slot = world.send_slot(world.rank(), receiver);
    SignalWord& received = world.receive_slot(receiver, world.rank()).received;
    const auto offset = world.arena_offset(data);
    for_each_piece(data.size(), !offset, [&](std::size_t at, std::size_t length) {
      if (!offset) copy(data.data() + at, length, world.send_staging(world.rank()));
      slot.announcement = {.operation = static_cast<std::uint32_t>(CollectiveKind::send),
                           .offered = offset ? Offered::in_arena : Offered::in_staging,
                           .group = rounds_.group(),
                           .reserved = 0,
                           .bytes = data.size(),
                           .offset = offset.value_or(0)};
      const std::uint32_t turn = slot.sent.value() + 1;
      slot.sent.raise(turn);
      world.wait(received, turn, call);
    });
  }

  void receive(std::span<std::byte> data, int from) override {
    check_other_rank("receive", from, rank(), size());
    const CollectiveCall call = call_of(CollectiveKind::receive, data);
    SharedMemoryWorld& world = rounds_.world();
    const int sender = rounds_.member(from);
    SendSlot& slot = world.send_slot(sender, world.rank());
    SignalWord& received = world.receive_slot(world.rank(), sender).received;
    std::size_t done = 0;
    do {
      const std::uint32_t turn = received.value() + 1;
      world.wait(slot.sent, turn, call);
      const Announcement& sent = slot.announcement;
      check_matching_send(sent, sender, data.size());
      const bool staged = sent.offered == Offered::in_staging;
      const std::size_t length = staged ? std::min(staging_bytes, data.size() - done) : data.size();
      copy(staged ? world.send_staging(sender) : world.arena(sender).data() + sent.offset, length,
           data.data() + done);
      done += length;
      received.raise(turn);
    } while (done < data.size());
  }

  void abort(const std::string& why) override { rounds_.world().abort(why); }

  void barrier() override { barrier_round({CollectiveKind::barrier, {}}); }

  std::unique_ptr<Communicator> split(int color) override {
    check_color(color);
    struct Choice {
      std::int32_t color;
      std::uint32_t group;
    };
    std::vector<Choice> choices(index(size()));
    const auto gather = [&](Choice mine) {
      all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(choices)));
    };
    gather({color, 0});
    std::vector<int> ranks;
    for (int peer = 0; peer < size(); ++peer) {
      if (choices[index(peer)].color == color) ranks.push_back(peer);
    }
    // The first of each new group takes its number.
    const bool leads = ranks.front() == rank();
    gather({color, leads ? rounds_.world().take_group() : 0});
    const std::uint32_t group = choices[index(ranks.front())].group;
    std::vector<int> members;
    for (const int peer : ranks) members.push_back(rounds_.member(peer));
    return std::make_unique<SharedMemoryCommunicator>(
        Rounds(rounds_.shared_world(), group, std::move(members)));
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  static CollectiveCall call_of(CollectiveKind kind, std::span<const std::byte> bytes) {
    return {kind, {static_cast<std::int64_t>(bytes.size())}};
  }

  void barrier_round(const CollectiveCall& call) { rounds_.run(call, Offered::nothing, 0); }

  /// Calls body(offset, length) for the pieces in which `bytes` travel; once for nothing.
  template <class Body>
  static void for_each_piece(std::size_t bytes, bool staged, Body body) {
    std::size_t at = 0;
    do {
      const std::size_t length = staged ? std::min(staging_bytes, bytes - at) : bytes;
      body(at, length);
      at += length;
    } while (at < bytes);
  }

  const std::byte* source(int peer, std::size_t offset) const {
    return rounds_.offered(peer) == Offered::in_staging ? rounds_.source(peer)
                                                        : rounds_.source(peer) + offset;
  }

  void collect_sources(std::size_t offset) {
    for (int peer = 0; peer < size(); ++peer) sources_[index(peer)] = rounds_.source(peer) + offset;
  }

  /// Offers `input` to all and calls take(offset, length, stride) for each piece of a part that can
  /// be read: everything at once where all inputs lie in arenas, pieces that fit the staging memory
  /// otherwise (parts then lie `stride` apart). Returns when nobody reads this rank's arena any
  /// more.
  template <class Take>
  void exchange(const CollectiveCall& call, Input input, Take take, bool offers = true) {
    const std::size_t part = input.part_bytes();
    const std::size_t stride = staging_bytes / index(input.parts) / 64 * 64;
    const auto arena_offset = rounds_.world().arena_offset(input.bytes);
    const Offered offered = !offers        ? Offered::nothing
                            : arena_offset ? Offered::in_arena
                                           : Offered::in_staging;
    bool staged = true;
    std::size_t offset = 0;
    do {
      if (offered == Offered::in_staging) lay_out_piece(input, offset, stride);
      rounds_.run(call, offered, arena_offset.value_or(0));
      staged = rounds_.any(Offered::in_staging);
      const std::size_t length = staged ? std::min(stride, part - offset) : part;
      take(offset, length, stride);
      offset += length;
    } while (offset < part);
    if (rounds_.any(Offered::in_arena)) barrier_round(call);
  }

  void lay_out_piece(const Input& input, std::size_t offset, std::size_t stride) {
    const std::size_t part = input.part_bytes();
    const std::size_t length = std::min(stride, part - offset);
    for (std::size_t p = 0; p < index(input.parts); ++p) {
      copy(input.bytes.data() + p * part + offset, length, rounds_.next_staging() + p * stride);
    }
  }

  /// All data lie in arenas, and everybody has arrived. Each rank writes its own part, which only
  /// it reads from the others; after a round all take the parts of the others, which nobody reads
  /// from here any more.
  void all_reduce_in_place(const CollectiveCall& call, std::span<std::byte> data, Dtype dtype) {
    const auto part = [&](int peer) { return part_of(data.size(), peer, size()); };
    const ByteRange mine = part(rank());
    collect_sources(mine.begin);
    pairwise_sum(dtype, sources_, data.subspan(mine.begin, mine.size()));
    const auto offset = rounds_.world().arena_offset(data);
    rounds_.run(call, Offered::in_arena, *offset);
    for (int peer = 0; peer < size(); ++peer) {
      const ByteRange theirs = part(peer);
      if (peer == rank()) continue;
      copy(rounds_.source(peer) + theirs.begin, theirs.size(), data.data() + theirs.begin);
    }
    barrier_round(call);
  }

  void check_matching_send(const Announcement& sent, int sender, std::size_t bytes) const {
    if (sent.group == rounds_.group() && sent.bytes == bytes) return;
    throw Error(
        {.where = fmt::format("rank {}", rounds_.world().rank()),
         .what = fmt::format("receives {} B from rank {}, which sends {} B{}", bytes, sender,
                             sent.bytes, sent.group == rounds_.group() ? "" : " in another group"),
         .way_out = "sends and receives between two ranks must match in order and size",
         .code = ExitCode::rank_lost});
  }

  Rounds rounds_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

std::unique_ptr<Communicator> make_shared_memory_communicator(int rank, int world, TcpStore& store,
                                                              std::chrono::milliseconds deadline) {
  auto shared =
      std::make_shared<SharedMemoryWorld>(DescriptorExchange::Place{rank, world}, store, deadline);
  std::vector<int> members;
  for (int member = 0; member < world; ++member) members.push_back(member);
  return std::make_unique<SharedMemoryCommunicator>(Rounds(std::move(shared), 0, members));
}

}  // namespace shardscope
