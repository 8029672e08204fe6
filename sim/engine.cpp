#include "sim/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"
#include "sim/straggling.h"

namespace shardscope {
namespace {

constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t no_operation = std::numeric_limits<std::uint32_t>::max();

/// An operation in flight; `left_ns` is what is left of it at full speed.
struct Running {
  std::uint32_t op = 0;
  Share share = Share::alone;
  double left_ns = 0;
  bool awaits_ranks = false;  ///< the time left is until the last rank comes, not yet its own
};

/// Operations of one stream that the host has issued.
struct Queue {
  std::vector<std::uint32_t> issued;
  std::size_t head = 0;
  bool busy = false;
};

class Player {
 public:
  Player(const Schedule& schedule, std::span<const Duration> times, const EngineOptions& options)
      : schedule_(schedule),
        times_(times),
        options_(options),
        count_(schedule.operations.size()),
        sharing_(options.sharing),
        straggling_(options.straggling) {
    timeline_.issued.resize(count_);
    timeline_.start.resize(count_);
    timeline_.end.resize(count_);
    ended_.resize(count_);
    all_there_ns_.resize(count_);
    straggling_.computed(options.since_they_met);
    find_channel_order();
    skip_init();
  }

  Timeline run() {
    while (ended_count_ < count_) {
      while (advance_host() || start_heads()) {
      }
      if (ended_count_ == count_) break;
      advance_to(next_event());
    }
    timeline_.since_they_met = straggling_.since_they_met();
    return std::move(timeline_);
  }

 private:
  const Operation& at(std::uint32_t op) const { return schedule_.operations[op]; }

  void find_channel_order() {
    channel_before_.assign(count_, no_operation);
    if (!options_.sharing.collectives_serial) return;
    std::uint32_t last = no_operation;
    for (std::uint32_t op = 0; op < count_; ++op) {
      if (!is_collective(at(op).kind)) continue;
      channel_before_[op] = last;
      last = op;
    }
  }

  bool before_the_step(std::uint32_t op) const { return at(op).phase == Phase::init; }

  void skip_init() {
    for (std::uint32_t op = 0; op < count_; ++op) {
      if (!before_the_step(op)) continue;
      ended_[op] = 1;
      ++ended_count_;
    }
  }

  bool runs_on_host(std::uint32_t op) const {
    if (options_.host == HostRole::computes) return !is_collective(at(op).kind);
    return at(op).stream == Stream::host;
  }

  bool dependencies_ended(std::uint32_t op) const {
    if (channel_before_[op] != no_operation && !ended_[channel_before_[op]]) return false;
    const auto after = schedule_.after_of(at(op));
    return std::all_of(after.begin(), after.end(),
                       [&](OperationId id) { return ended_[id.value] != 0; });
  }

  /// One action of the host thread at the present moment; false if it can only wait.
  bool advance_host() {
    while (host_op_ < count_ && before_the_step(host_op_)) ++host_op_;
    if (host_op_ == count_ || host_runs_) return false;
    if (!host_issues_) {
      host_issues_ = true;
      host_ready_ns_ = now_ns_ + options_.issue_overhead.ns;
    }
    if (now_ns_ < host_ready_ns_) return false;
    if (runs_on_host(host_op_)) {
      if (!dependencies_ended(host_op_)) {
        host_waits_ = true;
        return false;
      }
      if (host_waits_) straggling_.meet();
      host_waits_ = false;
      timeline_.issued[host_op_] = {now_ns_};
      host_runs_ = true;
      begin(host_op_);
      return true;
    }
    timeline_.issued[host_op_] = {now_ns_};
    all_there_ns_[host_op_] = now_ns_ + straggling_.wait().ns;
    queue_of(host_op_).issued.push_back(host_op_);
    next_on_host();
    return true;
  }

  void next_on_host() {
    ++host_op_;
    host_issues_ = false;
  }

  Queue& queue_of(std::uint32_t op) { return queues_[static_cast<std::size_t>(at(op).stream)]; }

  bool start_heads() {
    bool started = false;
    for (Queue& queue : queues_) {
      if (queue.busy || queue.head == queue.issued.size()) continue;
      const std::uint32_t op = queue.issued[queue.head];
      if (!dependencies_ended(op)) continue;
      queue.busy = true;
      begin(op);
      started = true;
    }
    return started;
  }

  void begin(std::uint32_t op) {
    timeline_.start[op] = {now_ns_};
    if (all_there_ns_[op] > now_ns_) {
      const auto wait_ns = static_cast<double>(all_there_ns_[op] - now_ns_);
      run({.op = op, .left_ns = wait_ns, .awaits_ranks = true});
    } else {
      run_itself(op);
    }
  }

  void run_itself(std::uint32_t op) {
    run({.op = op, .share = share_of(at(op).kind), .left_ns = static_cast<double>(times_[op].ns)});
  }

  void run(const Running& running) {
    running_.push_back(running);
    sharing_.begin(running.share);
  }

  /// When it ends if nothing else starts or ends before.
  std::int64_t end_ns(const Running& running) const {
    return now_ns_ + remaining_ns(running.left_ns, sharing_.slowdown(running.share));
  }

  std::int64_t next_event() const {
    std::int64_t next = host_issues_ && host_ready_ns_ > now_ns_ ? host_ready_ns_ : never_ns;
    for (const Running& running : running_) next = std::min(next, end_ns(running));
    if (next == never_ns) throw waits_for_itself();
    return next;
  }

  Error waits_for_itself() const {
    std::uint32_t stuck = 0;
    while (ended_[stuck]) ++stuck;
    return Error({.where = fmt::format("schedule, operation {}", stuck),
                  .what = fmt::format("{} waits for operations that wait for it",
                                      schedule_.name(at(stuck)))});
  }

  void advance_to(std::int64_t next_ns) {
    const double elapsed_ns = static_cast<double>(next_ns - now_ns_);
    finished_.clear();
    for (Running& running : running_) {
      if (end_ns(running) <= next_ns)
        finished_.push_back(running);
      else
        running.left_ns -= elapsed_ns / sharing_.slowdown(running.share);
    }
    now_ns_ = next_ns;
    for (const Running& running : finished_) finish(running);
  }

  void finish(const Running& finished) {
    const std::uint32_t op = finished.op;
    std::erase_if(running_, [op](const Running& running) { return running.op == op; });
    sharing_.end(finished.share);
    if (finished.awaits_ranks) return run_itself(op);
    timeline_.end[op] = {now_ns_};
    timeline_.span = {now_ns_};
    ended_[op] = 1;
    ++ended_count_;
    if (finished.share == Share::compute)
      straggling_.computed(timeline_.end[op] - timeline_.start[op]);
    if (runs_on_host(op)) {
      host_runs_ = false;
      next_on_host();
    } else {
      Queue& queue = queue_of(op);
      ++queue.head;
      queue.busy = false;
    }
  }

  const Schedule& schedule_;
  std::span<const Duration> times_;
  const EngineOptions& options_;
  std::size_t count_;
  Timeline timeline_;
  std::vector<std::uint8_t> ended_;
  std::size_t ended_count_ = 0;
  std::vector<std::uint32_t> channel_before_;  ///< the collective that must have ended
  std::array<Queue, stream_count> queues_;
  std::vector<Running> running_;
  std::vector<Running> finished_;
  Sharing sharing_;
  Straggling straggling_;
  std::vector<std::int64_t> all_there_ns_;  ///< when the last rank comes to a collective
  std::int64_t now_ns_ = 0;
  std::uint32_t host_op_ = 0;  ///< that the host is at
  bool host_issues_ = false;   ///< `host_ready_ns_` is set for it
  bool host_waits_ = false;    ///< for a collective
  bool host_runs_ = false;     ///< it is running on the host
  std::int64_t host_ready_ns_ = 0;
};

}  // namespace

Timeline play(const Schedule& schedule, std::span<const Duration> times,
              const EngineOptions& options) {
  if (times.size() != schedule.operations.size())
    throw Error({.where = "simulation",
                 .what = fmt::format("{} times for {} operations", times.size(),
                                     schedule.operations.size())});
  return Player(schedule, times, options).run();
}

}  // namespace shardscope
