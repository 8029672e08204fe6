#include "backend/calibrate/core_sharing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>

#include "backend/calibrate/kernel_operands.h"
#include "backend/calibrate/rank_group.h"
#include "core/base/median.h"

namespace shardscope {
namespace {

constexpr int most_pieces = 16;
constexpr double most_laps = 1e4;
constexpr double least_share = 0.01;

/// Forward and backward of one micro-batch, piece after piece, again and again.
class Pieces {
 public:
  Pieces(const Schedule& schedule, Device& device, int pieces)
      : schedule_(schedule), device_(device), count_(static_cast<std::size_t>(pieces)) {
    for (const Operation& op : schedule.operations) {
      const bool counts = op.phase == Phase::forward || op.phase == Phase::backward;
      if (op.kind != OperationKind::compute || !counts || op.micro_batch != 0) continue;
      kernels_.push_back(op.detail);
      if (operands_.contains(op.detail)) continue;
      device.prepare(schedule.kernels[op.detail]);
      operands_.try_emplace(op.detail, schedule.kernels[op.detail], device);
    }
    cut();
  }

  void run_next() {
    for (std::size_t i = ends_[at_]; i < ends_[at_ + 1]; ++i) run(kernels_[i]);
    at_ = (at_ + 1) % count_;
  }
  void run_all() {
    for (std::size_t i = 0; i < count_; ++i) run_next();
  }
  int count() const { return static_cast<int>(count_); }

 private:
  void run(std::uint32_t kernel) {
    device_.run(schedule_.kernels[kernel], operands_.at(kernel).call());
  }

  /// At the kernels where equal times have passed.
  void cut() {
    std::vector<double> ends_at;
    for (const std::uint32_t kernel : kernels_) run(kernel);  // finds no memory touched
    const Duration begin = monotonic_now();
    for (const std::uint32_t kernel : kernels_) {
      run(kernel);
      ends_at.push_back((monotonic_now() - begin).seconds());
    }
    for (std::size_t i = 1; i < count_; ++i) {
      const double end = ends_at.back() * static_cast<double>(i) / static_cast<double>(count_);
      const auto after = std::ranges::lower_bound(ends_at, end) - ends_at.begin();
      ends_.push_back(static_cast<std::size_t>(after));
    }
    ends_.push_back(kernels_.size());
  }

  const Schedule& schedule_;
  Device& device_;
  std::size_t count_;
  std::vector<std::uint32_t> kernels_;  ///< indexes into the schedule's, in order
  std::map<std::uint32_t, KernelOperands> operands_;
  std::vector<std::size_t> ends_ = {0};  ///< of pieces, in kernels_
  std::size_t at_ = 0;
};

class Ring {
 public:
  explicit Ring(Communicator& world) : world_(world), ranks_(world.size()), rank_(world.rank()) {}

  /// Until this rank has had its turns.
  void run(const std::function<void()>& compute, int tokens, int laps) {
    const RingTurns turns = ring_turns(rank_, ranks_, tokens, laps);
    bool holds = turns.begins;
    for (int turn = 0; turn < turns.count; ++turn) {
      if (!holds) receive();
      holds = false;
      compute();
      const bool last = turn + 1 == turns.count;
      if (last && !turns.passes_last) return;
      // A send waits for the receiver: where all ranks have a token, every second one takes the
      // other's first.
      if (tokens == ranks_ && rank_ % 2 == 1) {
        receive();
        holds = true;
      }
      send();
    }
  }

 private:
  void send() { world_.send(token_, (rank_ + 1) % ranks_); }
  void receive() { world_.receive(token_, (rank_ + ranks_ - 1) % ranks_); }

  Communicator& world_;
  int ranks_;
  int rank_;
  std::array<std::byte, 8> token_{};
};

/// Seconds of a lap of all pieces, while every rank runs its own.
double alone(Communicator& world, Pieces& pieces, Duration time) {
  world.barrier();
  const Duration begin = monotonic_now();
  int laps = 0;
  for (; laps == 0 || monotonic_now() - begin < time; ++laps) pieces.run_all();
  return mean_over_ranks(world, (monotonic_now() - begin).seconds() / laps);
}

/// Seconds of a token's turn and its way to the next rank.
double passed_on(Communicator& world, const std::function<void()>& compute, int tokens, int laps) {
  world.barrier();
  const Duration begin = monotonic_now();
  Ring(world).run(compute, tokens, laps);
  world.barrier();
  const double mine = (monotonic_now() - begin).seconds();
  return mean_over_ranks(world, mine) / (laps * world.size());
}

/// The same of as many laps as fit into `time`, one at least.
double passed_on_within(Communicator& world, const std::function<void()>& compute, int tokens,
                        Duration time) {
  const double turn = passed_on(world, compute, tokens, 1);
  const double laps = time.seconds() / (turn * world.size());
  return passed_on(world, compute, tokens, static_cast<int>(std::clamp(laps, 1.0, most_laps)));
}

}  // namespace

std::vector<int> ranks_that_compute(int all) {
  std::vector<int> counts;
  for (int ranks = 1; ranks < all; ranks = ranks < 8 ? ranks + 1 : 2 * ranks)
    counts.push_back(ranks);
  counts.push_back(all);
  return counts;
}

RingTurns ring_turns(int rank, int ranks, int tokens, int laps) {
  return {.count = tokens * laps,
          .begins = rank < tokens,
          .passes_last = (rank + 1) % ranks >= tokens};
}

std::vector<CoreSharingSample> time_core_sharing(Communicator& world, Device& device,
                                                 const Schedule& schedule, Duration budget) {
  const int ranks = world.size();
  Pieces pieces(schedule, device, std::min(2 * ranks, most_pieces));
  const std::vector<int> counts = ranks_that_compute(ranks);
  const std::int64_t runs = std::ssize(counts) + 2;
  const double lap = alone(world, pieces, {}) / pieces.count() * ranks;
  // Each run takes two laps at least: of long ones no more.
  const int rounds = 2 * lap * 3 * static_cast<double>(runs) > budget.seconds() ? 1 : 3;
  const Duration time{budget.ns / rounds / runs};

  std::vector<double> apart;
  std::vector<double> way;
  std::vector<std::vector<double>> together(counts.size());
  for (int round = 0; round < rounds; ++round) {
    apart.push_back(alone(world, pieces, time) / pieces.count());
    way.push_back(passed_on_within(world, [] {}, 1, time));
    for (std::size_t i = 0; i < counts.size(); ++i)
      together[i].push_back(
          passed_on_within(world, [&] { pieces.run_next(); }, counts[i], time));
  }
  std::vector<CoreSharingSample> samples;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double share = (median(together[i]) - median(way)) / median(apart);
    samples.push_back({counts[i], std::max(share, least_share)});
  }
  return samples;
}

}  // namespace shardscope
