// Collectives among the ranks of a group. One contract, several implementations (shared memory,
// MPI, NCCL, a group of one), one test suite for all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/quantities.h"

namespace shardscope {

class QueuedCollectives;

/// A collective that is going to be called.
struct PlannedCollective {
  std::string_view operation;  ///< "all_gather"
  std::string_view unit;       ///< "transformer.h.3"; empty: of no unit
  Bytes bytes;                 ///< of the larger side
  std::optional<Dtype> dtype;
};

/// Memory that a communicator supplied; moves, and gives the memory back when it goes.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual std::byte* data() const = 0;  ///< page-aligned, zeroed
  virtual Bytes size() const = 0;
};

/// Collectives, called from one thread in the same order on all ranks of the group. They block
/// where the memory is the host's. Where it is a device's, those whose buffers lie in the arena are
/// queued on its selected stream (`DeviceStreams`), where events order them with what stands before
/// and behind them; all others block.
///
/// Every rank gets the same bits of a sum, and runs repeat bit for bit. On the host, reductions add
/// over ranks in one fixed pairwise tree, neighbours first: ((r0+r1)+(r2+r3))+..., an odd one out
/// is carried up; bfloat16 is added so in float32 and rounded once, at the end. NCCL's sums follow
/// the ring or tree that it lays over the links, and bfloat16 is rounded on its way. Buffers may be
/// anywhere; those inside the arena are read in place by peers where the implementation can. A lost
/// peer, or a wait over the deadline, throws Error with ExitCode::rank_lost that names the rank,
/// the operation and the bytes; the communicator is of no use after that. Sizes that do not fit
/// together throw Error with ExitCode::bad_input before anything moves. The communicators of one
/// tree (`split`) are used by one thread, in an order that every two ranks agree on for the groups
/// that they share.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  ///< in the group
  virtual int size() const = 0;
  /// Its ranks as the job numbers them, ascending; those of the group of all unless said.
  virtual std::vector<int> ranks() const {
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  virtual std::string description() const = 0;  ///< "shared_memory, 2 ranks"

  /// Collective over the group that was there at the start: every rank allocates the same size.
  /// Once per communicator tree.
  virtual std::unique_ptr<Arena> allocate_arena(Bytes size) = 0;

  /// out[i * in.size() ...] = rank i's `in`. `in` may be its own part of `out`. Bytes, any dtype.
  virtual void all_gather(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  /// out = this rank's part (1/size) of the sum of all `in`. `out` may be its own part of `in`.
  /// bfloat16, float32 or float64.
  virtual void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                              Dtype dtype) = 0;
  /// data = the sum of all, on every rank. bfloat16, float32, float64 or int64.
  virtual void all_reduce(std::span<std::byte> data, Dtype dtype) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// May wait until the other rank receives; the sizes on both sides must be equal.
  virtual void send(std::span<const std::byte> data, int to) = 0;
  virtual void receive(std::span<std::byte> data, int from) = 0;
  virtual void barrier() = 0;

  /// Collective: ranks that give the same color (0 or more) form a group, ordered by their rank
  /// here.
  virtual std::unique_ptr<Communicator> split(int color) = 0;

  /// Returns when everything that was queued on the selected stream has ended; at once where calls
  /// block. Throws as a collective does.
  virtual void wait() {}

  /// What it has queued, for a watchdog; null where calls block. Lives as long as the communicators
  /// of its tree.
  virtual QueuedCollectives* queued() { return nullptr; }
  /// Where calls block: the one under way and all later ones of the tree end soon, with an Error
  /// that says `why`. From any thread; returns at once.
  virtual void abort(const std::string& /*why*/) {}
  /// Tells of the next call that was not yet told of, for the flight record. On any one thread, in
  /// the order of the calls of the whole tree.
  virtual void announce(const PlannedCollective&) {}
};

}  // namespace shardscope
