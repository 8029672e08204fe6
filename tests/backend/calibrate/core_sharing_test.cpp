#include "backend/calibrate/core_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <vector>

#include "backend/job/make_communicator.h"
#include "tests/backend/comm/forked_ranks.h"

namespace shardscope {
namespace {

TEST(RanksThatCompute, AreAllNumbersUpToEightAndThenTwiceAsManyEachTime) {
  EXPECT_EQ(ranks_that_compute(1), std::vector{1});
  EXPECT_EQ(ranks_that_compute(4), (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(ranks_that_compute(20), (std::vector{1, 2, 3, 4, 5, 6, 7, 8, 16, 20}));
}

/// A ring whose ranks take turns, one after the other. Returns how often each token was computed
/// with, or nothing if a rank waits for ever or a token is left on the way.
std::vector<int> turns_by_token(int ranks, int tokens, int laps) {
  struct Rank {
    RingTurns turns;
    int done = 0;
    std::deque<int> arrived = {};
  };
  std::vector<Rank> ring;
  for (int rank = 0; rank < ranks; ++rank) {
    ring.push_back({ring_turns(rank, ranks, tokens, laps)});
    if (ring.back().turns.begins) ring.back().arrived.push_back(rank);
  }
  std::vector<int> turns(static_cast<std::size_t>(tokens));
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t i = 0; i < ring.size(); ++i) {
      Rank& rank = ring[i];
      if (rank.done == rank.turns.count || rank.arrived.empty()) continue;
      const int token = rank.arrived.front();
      rank.arrived.pop_front();
      ++turns[static_cast<std::size_t>(token)];
      const bool last = ++rank.done == rank.turns.count;
      if (!last || rank.turns.passes_last) ring[(i + 1) % ring.size()].arrived.push_back(token);
      moves = true;
    }
  }
  for (const Rank& rank : ring)
    if (rank.done != rank.turns.count || !rank.arrived.empty()) return {};
  return turns;
}

TEST(RingTurns, EveryTokenVisitsEveryRankInEveryLap) {
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (int tokens = 1; tokens <= ranks; ++tokens)
      for (int laps = 1; laps <= 3; ++laps)
        EXPECT_EQ(turns_by_token(ranks, tokens, laps),
                  std::vector<int>(static_cast<std::size_t>(tokens), laps * ranks))
            << ranks << " ranks, " << tokens << " tokens, " << laps << " laps";
}

TEST(PassTokens, EveryRankComputesOnceForEachTokenInEveryLapAndNoneWaitsForEver) {
  constexpr int laps = 3;
  for (int ranks = 2; ranks <= 5; ++ranks) {
    const auto outcomes = testing::run_ranks(ranks, [](const Environment& place) {
      const auto world =
          make_communicator(CommunicatorChoice::shared_memory, place, std::chrono::seconds(60));
      for (int tokens = 1; tokens <= world->size(); ++tokens) {
        int turns = 0;
        pass_tokens(
            *world, [&] { ++turns; }, tokens, laps);
        if (turns != laps * tokens) return ExitCode::bad_input;
      }
      return ExitCode::done;
    });
    EXPECT_THAT(outcomes, ::testing::Each(testing::RankOutcome{})) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace shardscope
