#include "backend/comm/mpi/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/time_limit.h"
#include "backend/comm/byte_range.h"
#include "backend/comm/collective_call.h"
#include "backend/comm/collective_checks.h"
#include "backend/comm/mpi/session.h"
#include "backend/comm/pairwise_tree.h"
#include "backend/comm/private_arena.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

/// Longest message; MPI counts in int, and 2^30 bytes stay well below it.
constexpr std::size_t message_bytes = std::size_t{1} << 30;
/// All pieces that a rank holds at once while it sums; a piece is at most `piece_bytes`.
constexpr std::size_t scratch_bytes = 8 << 20;
constexpr std::size_t piece_bytes = 1 << 20;

/// The owner of an MPI communicator.
class MpiGroup {
 public:
  explicit MpiGroup(MPI_Comm handle) : handle_(handle) {
    MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(handle_, &rank_);
    MPI_Comm_size(handle_, &size_);
  }
  MpiGroup(MpiGroup&& other) noexcept
      : handle_(std::exchange(other.handle_, MPI_COMM_NULL)),
        rank_(other.rank_),
        size_(other.size_) {}
  MpiGroup& operator=(MpiGroup&&) = delete;
  ~MpiGroup() {
    // Freeing is collective; a rank on its way out after a failure must not wait for the others.
    if (handle_ == MPI_COMM_NULL || MpiSession::failed() || std::uncaught_exceptions() > 0) return;
    MPI_Comm_free(&handle_);
  }

  MPI_Comm handle() const { return handle_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  MPI_Comm handle_;
  int rank_ = 0;
  int size_ = 1;
};

/// Gives the processor away while a transfer goes on. Transfers move only while MPI is called, so
/// that naps begin when even a slow one would be over.
class Patience {
 public:
  explicit Patience(Bytes bytes)
      : busy_(std::chrono::milliseconds(1) + std::chrono::nanoseconds(bytes.count * 2)) {}
  void wait() {
    if (busy_.passed()) {
      ::usleep(50);
    } else {
      ::sched_yield();
    }
  }

 private:
  TimeLimit busy_;
};

/// Tells the communicators of a tree to give up.
struct StopWord {
  std::string why;  ///< before `asked` is set
  std::atomic<bool> asked = false;
};

/// Messages under way.
class Transfers {
 public:
  Transfers(const MpiGroup& group, const StopWord& stop) : group_(group), stop_(stop) {
    const auto most = 2 * static_cast<std::size_t>(group.size());
    requests_.reserve(most);
    statuses_.resize(most);
  }

  void send(std::span<const std::byte> data, int to) {
    if (data.empty()) return;
    check_mpi(MPI_Isend(data.data(), count_of(data), MPI_BYTE, to, tag, group_.handle(), add()),
              "MPI_Isend");
  }
  void receive(std::span<std::byte> data, int from) {
    if (data.empty()) return;
    check_mpi(MPI_Irecv(data.data(), count_of(data), MPI_BYTE, from, tag, group_.handle(), add()),
              "MPI_Irecv");
  }
  void barrier() { check_mpi(MPI_Ibarrier(group_.handle(), add()), "MPI_Ibarrier"); }

  /// Returns when all have ended; none is under way then.
  void finish(const CollectiveCall& call) {
    Patience patience(call.bytes);
    int all_done = 0;
    while (true) {
      check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all_done,
                            statuses_.data()),
                "MPI_Testall");
      if (all_done) break;
      if (stop_.asked.load(std::memory_order_acquire)) give_up(call);
      patience.wait();
    }
    requests_.clear();
  }

  /// Bytes of the message that was received alone, after `finish`.
  std::size_t received_bytes() const {
    int count = 0;
    MPI_Get_count(&statuses_.front(), MPI_BYTE, &count);
    return static_cast<std::size_t>(count);
  }

 private:
  static constexpr int tag = 1;

  static int count_of(std::span<const std::byte> data) { return static_cast<int>(data.size()); }

  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  [[noreturn]] void give_up(const CollectiveCall& call) const {
    MpiSession::mark_failed();
    throw Error({.where = fmt::format("rank {} of {}", group_.rank(), group_.size()),
                 .what = fmt::format("{}: {}", text_of(call), stop_.why),
                 .way_out = {},
                 .code = ExitCode::rank_lost});
  }

  const MpiGroup& group_;
  const StopWord& stop_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MpiGroup group, std::vector<int> ranks, int world, std::shared_ptr<StopWord> stop)
      : group_(std::move(group)),
        ranks_(std::move(ranks)),
        world_(world),
        stop_(std::move(stop)),
        transfers_(group_, *stop_),
        sources_(index(size())) {
    piece_ = std::clamp(scratch_bytes / index(size()) / 64 * 64, std::size_t{4096}, piece_bytes);
    scratch_.resize(piece_ * index(size()));
  }

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::vector<int> ranks() const override { return ranks_; }
  std::string description() const override { return fmt::format("mpi, {} ranks", size()); }

  std::unique_ptr<Arena> allocate_arena(Bytes bytes) override {
    check_arena(bytes, size(), world_);
    if (has_arena_) {
      throw Error({.where = "allocate_arena",
                   .what = "this job has its arena already",
                   .way_out = "allocate one arena for everything"});
    }
    has_arena_ = true;
    return make_private_arena(bytes);
  }

  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    check_all_gather(in.size(), out.size(), size());
    const std::span<std::byte> own = out.subspan(index(rank()) * in.size(), in.size());
    if (own.data() != in.data() && !in.empty()) std::memmove(own.data(), in.data(), in.size());
    gather_parts(call_of(CollectiveKind::all_gather, out), out, [&](int peer) {
      return ByteRange{index(peer) * in.size(), index(peer + 1) * in.size()};
    });
  }

  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                      Dtype dtype) override {
    check_reduce_scatter(in.size(), out.size(), size(), dtype);
    const auto part = [&](int peer) {
      return ByteRange{index(peer) * out.size(), index(peer + 1) * out.size()};
    };
    sum_own_part({call_of(CollectiveKind::reduce_scatter, in), in, out, dtype}, part);
  }

  void all_reduce(std::span<std::byte> data, Dtype dtype) override {
    check_all_reduce(data.size(), dtype);
    const CollectiveCall call = call_of(CollectiveKind::all_reduce, data);
    const auto part = [&](int peer) { return part_of(data.size(), peer, size()); };
    const ByteRange own = part(rank());
    sum_own_part({call, data, data.subspan(own.begin, own.size()), dtype}, part);
    gather_parts(call, data, part);
  }

  void broadcast(std::span<std::byte> data, int root) override {
    check_rank("broadcast", root, size());
    const CollectiveCall call = call_of(CollectiveKind::broadcast, data);
    for_each_piece(data.size(), message_bytes, [&](ByteRange piece) {
      for (int peer = 0; peer < size() && rank() == root; ++peer) {
        if (peer != root) transfers_.send(data.subspan(piece.begin, piece.size()), peer);
      }
      if (rank() != root) transfers_.receive(data.subspan(piece.begin, piece.size()), root);
      transfers_.finish(call);
    });
  }

  void send(std::span<const std::byte> data, int to) override {
    check_other_rank("send", to, rank(), size());
    for_each_piece(data.size(), message_bytes, [&](ByteRange piece) {
      transfers_.send(data.subspan(piece.begin, piece.size()), to);
      transfers_.finish(call_of(CollectiveKind::send, data));
    });
  }

  void receive(std::span<std::byte> data, int from) override {
    check_other_rank("receive", from, rank(), size());
    for_each_piece(data.size(), message_bytes, [&](ByteRange piece) {
      transfers_.receive(data.subspan(piece.begin, piece.size()), from);
      transfers_.finish(call_of(CollectiveKind::receive, data));
      if (transfers_.received_bytes() == piece.size()) return;
      throw Error({.where = fmt::format("rank {} of {}", rank(), size()),
                   .what = fmt::format("receives {} B from rank {}, which sends {} B", piece.size(),
                                       from, transfers_.received_bytes()),
                   .way_out = "sends and receives between two ranks must match in order and size",
                   .code = ExitCode::rank_lost});
    });
  }

  void barrier() override { barrier({CollectiveKind::barrier, {}}); }

  std::unique_ptr<Communicator> split(int color) override {
    check_color(color);
    // MPI_Comm_split cannot be aborted: see first that everybody is there.
    barrier({CollectiveKind::split, {}});
    std::vector<int> colors(index(size()));
    all_gather(std::as_bytes(std::span(&color, 1)), std::as_writable_bytes(std::span(colors)));
    std::vector<int> members;
    for (std::size_t peer = 0; peer < colors.size(); ++peer)
      if (colors[peer] == color) members.push_back(ranks_[peer]);
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(group_.handle(), color, rank(), &part), "MPI_Comm_split");
    return std::make_unique<MpiCommunicator>(MpiGroup(part), std::move(members), world_, stop_);
  }

  void abort(const std::string& why) override {
    if (stop_->asked.load()) return;
    stop_->why = why;
    stop_->asked.store(true, std::memory_order_release);
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  static CollectiveCall call_of(CollectiveKind kind, std::span<const std::byte> bytes) {
    return {kind, {static_cast<std::int64_t>(bytes.size())}};
  }

  void barrier(const CollectiveCall& call) {
    transfers_.barrier();
    transfers_.finish(call);
  }

  template <class Body>
  static void for_each_piece(std::size_t bytes, std::size_t longest, Body body) {
    for (std::size_t at = 0; at < bytes; at += longest) {
      body(ByteRange{at, std::min(bytes, at + longest)});
    }
  }

  /// The piece of `range` that starts `at` bytes into it.
  static ByteRange piece_of(ByteRange range, std::size_t at, std::size_t longest) {
    const std::size_t begin = std::min(range.end, range.begin + at);
    return {begin, std::min(range.end, begin + longest)};
  }

  /// Calls body(i) for the other ranks, each rank starting with its neighbour, so that not all send
  /// to one.
  template <class Body>
  void for_each_peer(Body body) const {
    for (int step = 1; step < size(); ++step) body((rank() + step) % size());
  }

  struct Sum {
    CollectiveCall call;
    std::span<const std::byte> in;
    std::span<std::byte> out;  ///< where the sum of this rank's part of `in` goes
    Dtype dtype;
  };

  /// Every rank sends each part to the rank that sums it, piece by piece; the longest part is rank
  /// 0's.
  template <class PartOf>
  void sum_own_part(const Sum& sum, PartOf part_of_rank) {
    const ByteRange own = part_of_rank(rank());
    for_each_piece(part_of_rank(0).size(), piece_, [&](ByteRange at) {
      const ByteRange mine = piece_of(own, at.begin, piece_);
      for_each_peer([&](int peer) {
        transfers_.receive(std::span(scratch_).subspan(piece_ * index(peer), mine.size()), peer);
      });
      for_each_peer([&](int peer) {
        const ByteRange theirs = piece_of(part_of_rank(peer), at.begin, piece_);
        transfers_.send(sum.in.subspan(theirs.begin, theirs.size()), peer);
      });
      transfers_.finish(sum.call);
      for (int peer = 0; peer < size(); ++peer) {
        sources_[index(peer)] =
            peer == rank() ? sum.in.data() + mine.begin : scratch_.data() + piece_ * index(peer);
      }
      pairwise_sum(sum.dtype, sources_, sum.out.subspan(mine.begin - own.begin, mine.size()));
    });
  }

  /// Every rank gives its part of `data` to all others.
  template <class PartOf>
  void gather_parts(const CollectiveCall& call, std::span<std::byte> data, PartOf part_of_rank) {
    for_each_piece(part_of_rank(0).size(), message_bytes, [&](ByteRange at) {
      const auto piece = [&](int peer) {
        const ByteRange range = piece_of(part_of_rank(peer), at.begin, message_bytes);
        return data.subspan(range.begin, range.size());
      };
      for_each_peer([&](int peer) { transfers_.receive(piece(peer), peer); });
      for_each_peer([&](int peer) { transfers_.send(piece(rank()), peer); });
      transfers_.finish(call);
    });
  }

  MpiGroup group_;
  std::vector<int> ranks_;
  int world_;
  std::shared_ptr<StopWord> stop_;
  Transfers transfers_;
  std::vector<const std::byte*> sources_;
  std::size_t piece_ = 0;
  std::vector<std::byte> scratch_;
  bool has_arena_ = false;
};

/// MPI's ranks must be those of the launcher: a library that does not know this mpirun takes every
/// process for the only one.
void start_as(const Environment& environment) {
  MpiSession::start();
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == environment.world && rank == environment.rank) return;
  throw Error(
      {.where = "communicator mpi",
       .what = fmt::format("MPI says rank {} of {}, {} says rank {} of {}", rank, size,
                           name_of(environment.started_by), environment.rank, environment.world),
       .way_out = "start the ranks with this library's mpirun, or with srun --mpi=pmix"});
}

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Communicator> make_mpi_communicator(const Environment& environment) {
  start_as(environment);
  MPI_Comm all = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup");
  MpiGroup group(all);
  const int world = group.size();
  std::vector<int> ranks(static_cast<std::size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<MpiCommunicator>(std::move(group), std::move(ranks), world,
                                           std::make_shared<StopWord>());
}

MeetingPoint share_over_mpi(const Environment& environment, MeetingPoint point) {
  start_as(environment);
  char address[256] = {};
  point.address.copy(address, sizeof address - 1);
  check_mpi(MPI_Bcast(address, sizeof address, MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  check_mpi(MPI_Bcast(&point.port, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  point.address = address;
  return point;
}

}  // namespace shardscope
