#include "backend/calibrate/core_sharing.h"

#include <algorithm>
#include <array>
#include <cmath>
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
constexpr double least_piece_seconds = 1e-3;

/// Forward and backward of one micro-batch, piece after piece, again and again. Short pieces run
/// several times, because the way to the next rank would hide them.
class Pieces {
 public:
  Pieces(Communicator& world, const Schedule& schedule, Device& device, int pieces)
      : schedule_(schedule), device_(device), count_(static_cast<std::size_t>(pieces)) {
    for (const Operation& op : schedule.operations) {
      const bool counts = op.phase == Phase::forward || op.phase == Phase::backward;
      if (op.kind != OperationKind::compute || !counts || op.micro_batch != 0) continue;
      kernels_.push_back(op.detail);
      if (operands_.contains(op.detail)) continue;
      device.prepare(schedule.kernels[op.detail]);
      operands_.try_emplace(op.detail, schedule.kernels[op.detail], device);
    }
    const double piece = mean_over_ranks(world, cut());
    times_ = static_cast<int>(std::ceil(least_piece_seconds / std::max(piece, 1e-6)));
  }

  void restart() { at_ = 0; }
  void run_next() {
    for (int time = 0; time < times_; ++time)
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

  /// At the kernels where equal times have passed. Returns a piece's, in seconds.
  double cut() {
    for (const std::uint32_t kernel : kernels_) run(kernel);  // The first run touches the memory.
    std::vector<double> ends_at;
    const Duration begin = monotonic_now();
    for (const std::uint32_t kernel : kernels_) {
      run(kernel);
      ends_at.push_back((monotonic_now() - begin).seconds());
    }
    const double piece = ends_at.back() / static_cast<double>(count_);
    for (std::size_t i = 1; i < count_; ++i) {
      const auto after = std::ranges::lower_bound(ends_at, piece * static_cast<double>(i));
      ends_.push_back(static_cast<std::size_t>(after - ends_at.begin()));
    }
    ends_.push_back(kernels_.size());
    return piece;
  }

  const Schedule& schedule_;
  Device& device_;
  std::size_t count_;
  std::vector<std::uint32_t> kernels_;  ///< indexes into the schedule's, in order
  std::map<std::uint32_t, KernelOperands> operands_;
  std::vector<std::size_t> ends_ = {0};  ///< of pieces, in kernels_
  int times_ = 1;                        ///< that a piece runs
  std::size_t at_ = 0;
};

/// Mean seconds of all pieces. Every rank runs its own at the same time.
double alone(Communicator& world, Pieces& pieces, Duration time) {
  world.barrier();
  const Duration begin = monotonic_now();
  int laps = 0;
  for (; laps == 0 || monotonic_now() - begin < time; ++laps) pieces.run_all();
  return mean_over_ranks(world, (monotonic_now() - begin).seconds() / laps);
}

/// Mean seconds of a token's turn and its way to the next rank.
double passed_on(Communicator& world, const std::function<void()>& compute, int tokens, int laps) {
  world.barrier();
  const Duration begin = monotonic_now();
  pass_tokens(world, compute, tokens, laps);
  world.barrier();
  const double mine = (monotonic_now() - begin).seconds();
  return mean_over_ranks(world, mine) / (laps * world.size());
}

/// The same, measured over as many laps as fit into `time`, one at least.
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
  return {
      .count = tokens * laps, .begins = rank < tokens, .passes_last = (rank + 1) % ranks >= tokens};
}

void pass_tokens(Communicator& world, const std::function<void()>& compute, int tokens, int laps) {
  const int ranks = world.size();
  const int rank = world.rank();
  const RingTurns turns = ring_turns(rank, ranks, tokens, laps);
  std::array<std::byte, 8> token{};
  const auto receive = [&] { world.receive(token, (rank + ranks - 1) % ranks); };
  bool holds = turns.begins;
  for (int turn = 0; turn < turns.count; ++turn) {
    if (!holds) receive();
    compute();
    if (turn + 1 == turns.count && !turns.passes_last) return;
    // A send waits for the receiver: where all ranks have a token, every second rank first takes
    // the one that comes.
    holds = tokens == ranks && rank % 2 == 1;
    if (holds) receive();
    world.send(token, (rank + 1) % ranks);
  }
}

std::vector<CoreSharingSample> time_core_sharing(Communicator& world, Device& device,
                                                 const Schedule& schedule, Duration budget) {
  const int ranks = world.size();
  Pieces pieces(world, schedule, device, std::min(2 * ranks, most_pieces));
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
    pieces.restart();
    apart.push_back(alone(world, pieces, time) / pieces.count());
    way.push_back(passed_on_within(
        world, [] {}, 1, time));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      pieces.restart();
      together[i].push_back(passed_on_within(
          world, [&] { pieces.run_next(); }, counts[i], time));
    }
  }
  std::vector<CoreSharingSample> samples;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double share = (median(together[i]) - median(way)) / median(apart);
    if (share > 0) samples.push_back({counts[i], share});
  }
  return samples;
}

}  // namespace shardscope
