#include "backend/job/watched_communicator.h"

#include <utility>

#include "backend/comm/collective_call.h"
#include "backend/comm/queued_collectives.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

Bytes size_of(std::span<const std::byte> bytes) {
  return {static_cast<std::int64_t>(bytes.size())};
}

class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::shared_ptr<JobSession> session, std::unique_ptr<Communicator> inner,
                      bool is_world)
      : session_(std::move(session)),
        inner_(std::move(inner)),
        is_world_(is_world),
        ranks_(inner_->ranks()),
        group_(recorder().add_group(ranks_)) {
    if (is_world_) session_->watchdog.watch(*inner_);
  }
  ~WatchedCommunicator() override {
    if (is_world_) session_->watchdog.release();
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::vector<int> ranks() const override { return ranks_; }
  std::string description() const override { return inner_->description(); }

  std::unique_ptr<Arena> allocate_arena(Bytes size) override {
    std::unique_ptr<Arena> arena;
    run({.operation = name_of(CollectiveKind::allocate_arena), .bytes = size},
        [&] { arena = inner_->allocate_arena(size); });
    return arena;
  }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    run({.operation = name_of(CollectiveKind::all_gather), .bytes = size_of(out)},
        [&] { inner_->all_gather(in, out); });
  }
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                      Dtype dtype) override {
    run({.operation = name_of(CollectiveKind::reduce_scatter),
         .bytes = size_of(in),
         .dtype = dtype},
        [&] { inner_->reduce_scatter(in, out, dtype); });
  }
  void all_reduce(std::span<std::byte> data, Dtype dtype) override {
    run({.operation = name_of(CollectiveKind::all_reduce), .bytes = size_of(data), .dtype = dtype},
        [&] { inner_->all_reduce(data, dtype); });
  }
  void broadcast(std::span<std::byte> data, int root) override {
    run({.operation = name_of(CollectiveKind::broadcast), .bytes = size_of(data)},
        [&] { inner_->broadcast(data, root); });
  }
  void send(std::span<const std::byte> data, int to) override {
    run({.operation = name_of(CollectiveKind::send), .bytes = size_of(data), .peer = job_rank(to)},
        [&] { inner_->send(data, to); });
  }
  void receive(std::span<std::byte> data, int from) override {
    run({.operation = name_of(CollectiveKind::receive),
         .bytes = size_of(data),
         .peer = job_rank(from)},
        [&] { inner_->receive(data, from); });
  }
  void barrier() override {
    run({.operation = name_of(CollectiveKind::barrier)}, [&] { inner_->barrier(); });
  }
  std::unique_ptr<Communicator> split(int color) override {
    std::unique_ptr<Communicator> part;
    run({.operation = name_of(CollectiveKind::split)}, [&] { part = inner_->split(color); });
    return std::make_unique<WatchedCommunicator>(session_, std::move(part), false);
  }

  /// What was queued has deadlines of its own, however long all of it takes together; what a graph
  /// replays cannot be told apart, and is under the deadline as a whole.
  void wait() override {
    QueuedCollectives* queue = inner_->queued();
    if (queue == nullptr) return;
    const std::uint64_t sequence = recorder().call({.operation = "wait", .group = group_});
    if (queue->pending().empty()) recorder().start(sequence);
    finish(sequence, [&] { inner_->wait(); });
    recorder().complete(sequence);
  }

  QueuedCollectives* queued() override { return inner_->queued(); }
  void abort(const std::string& why) override { inner_->abort(why); }
  void announce(const PlannedCollective& planned) override { recorder().announce(planned, group_); }

 private:
  FlightRecorder& recorder() { return session_->watchdog.recorder(); }

  /// Of a rank that is one; the call itself refuses others.
  int job_rank(int rank) const {
    return rank >= 0 && rank < size() ? ranks_[static_cast<std::size_t>(rank)] : -1;
  }

  template <class Work>
  void run(FlightRecorder::Call call, Work work) {
    call.group = group_;
    const std::uint64_t sequence = recorder().call(call);
    QueuedCollectives* queue = inner_->queued();
    const std::uint64_t queued_before = queue == nullptr ? 0 : queue->queued_count();
    if (queue == nullptr) recorder().start(sequence);
    finish(sequence, work);
    const std::uint64_t queued = queue == nullptr ? 0 : queue->queued_count();
    if (queued > queued_before)
      session_->watchdog.note_queued(sequence, queued);
    else
      recorder().complete(sequence);
  }

  /// Calls work(), whose error becomes the watchdog's verdict where a rank was lost.
  template <class Work>
  void finish(std::uint64_t sequence, Work work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() == ExitCode::rank_lost) session_->watchdog.fail(error);
      recorder().complete(sequence);
      throw;
    }
  }

  std::shared_ptr<JobSession> session_;
  std::unique_ptr<Communicator> inner_;
  bool is_world_;
  std::vector<int> ranks_;
  std::size_t group_;
};

}  // namespace

std::unique_ptr<Communicator> make_watched_communicator(std::shared_ptr<JobSession> session,
                                                        std::unique_ptr<Communicator> inner) {
  return std::make_unique<WatchedCommunicator>(std::move(session), std::move(inner), true);
}

}  // namespace shardscope
