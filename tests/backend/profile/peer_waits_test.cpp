// Who waits for whom in a collective.
#include "backend/profile/peer_waits.h"

#include <gtest/gtest.h>

#include <chrono>

#include "backend/job/make_communicator.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/backend/profile/late_ranks.h"

namespace shardscope {
namespace {

using testing::RankOutcome;
using testing::run_ranks;

TEST(LastArrival, IsOfTheGroupAlone) {
  const std::vector<std::int64_t> by_rank{50, 90, 70, 60};
  EXPECT_EQ(last_arrival(Ranks{0, 2}, by_rank), (LastArrival{.time_ns = 70, .rank = 2}));
  EXPECT_EQ(last_arrival(Ranks::up_to(4), by_rank), (LastArrival{.time_ns = 90, .rank = 1}));
}

TEST(LastArrival, OfEqualsIsTheFirst) {
  EXPECT_EQ(last_arrival(Ranks::up_to(3), std::vector<std::int64_t>{7, 9, 9}),
            (LastArrival{.time_ns = 9, .rank = 1}));
}

using Check = void (*)(Communicator&);

void expect_over_shared_memory(int ranks, Check check) {
  const auto outcomes = run_ranks(ranks, [check](const Environment& place) {
    check(*make_communicator(CommunicatorChoice::shared_memory, place, std::chrono::seconds(60)));
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, RankOutcome{});
}

TEST(PeerWaits, SplitsCollectivesOverSharedMemory) {
  for (const int ranks : {2, 3}) expect_over_shared_memory(ranks, test::check_who_waits);
}

TEST(PeerWaits, GoByTheClockThatRanksHaveInCommon) {
  expect_over_shared_memory(2, test::check_that_clocks_count);
}

}  // namespace
}  // namespace shardscope
