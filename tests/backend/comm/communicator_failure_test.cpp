// What ranks see when one of them dies, hangs or does something else.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/job/make_communicator.h"
#include "tests/backend/comm/forked_ranks.h"

namespace shardscope::testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Communicator> meet(const Environment& place, std::chrono::milliseconds deadline) {
  return make_communicator(CommunicatorChoice::shared_memory, place, deadline);
}

/// Of a rank that is waited for; a rank that is well comes within it, on a busy machine, too.
constexpr seconds deadline{3};
/// For what ends long before the deadline of minutes.
constexpr double bound_s = 60;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(LostRank, KilledInMidCollectiveIsNamedWithOperationAndBytes) {
  const auto start = std::chrono::steady_clock::now();
  const auto outcomes = run_ranks(3, [](const Environment& place) {
    const auto group = meet(place, minutes(4));
    std::vector<std::byte> data(4096);
    for (int turn = 0;; ++turn) {
      if (place.rank == 1 && turn == 5) ::kill(::getpid(), SIGKILL);
      group->all_reduce(data, Dtype::float32);
    }
  });
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  for (const int survivor : {0, 2}) {
    const RankOutcome& outcome = outcomes[static_cast<std::size_t>(survivor)];
    EXPECT_EQ(outcome.exit_code, 4);
    EXPECT_THAT(outcome.message, AllOf(HasSubstr("all_reduce of 4096 B"), HasSubstr("rank 1")));
  }
  EXPECT_LT(seconds_since(start), bound_s);
}

TEST(LostRank, OneThatLeftInOrderIsNamed) {
  const auto start = std::chrono::steady_clock::now();
  const auto outcomes = run_ranks(2, [](const Environment& place) {
    auto group = meet(place, minutes(4));
    if (place.rank == 1) return;
    group->barrier();
  });
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_THAT(outcomes[0].message, AllOf(HasSubstr("rank 1 was lost: it has left the job"),
                                         HasSubstr("waits in barrier")));
  EXPECT_LT(seconds_since(start), bound_s);
}

TEST(LostRank, DeadlineNamesTheRankThatHoldsUpTheOthers) {
  const auto outcomes = run_ranks(3, [](const Environment& place) {
    const auto group = meet(place, deadline);
    group->barrier();
    if (place.rank == 2) {
      std::this_thread::sleep_for(minutes(1));  // its watchdog ends it before
      return;
    }
    // Rank 0 waits for rank 1, which waits for rank 2.
    std::vector<std::byte> data(8);
    if (place.rank == 1) group->receive(data, 2);
    if (place.rank == 0) group->receive(data, 1);
  });
  EXPECT_THAT(outcomes[0].message, AllOf(HasSubstr("receive of 8 B"), HasSubstr("rank 2")));
  EXPECT_THAT(outcomes[1].message,
              AllOf(HasSubstr("receive of 8 B"), HasSubstr("rank 2 did not come within 3 s")));
}

TEST(LostRank, MissingAtTheStartIsNamed) {
  const auto outcomes = run_ranks(3, [](const Environment& place) {
    if (place.rank == 2) return;
    meet(place, deadline);
  });
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_THAT(outcomes[0].message, HasSubstr("rank 2 of 3 did not come"));
}

TEST(LostRank, DifferentCallsAreToldApart) {
  const auto outcomes = run_ranks(2, [](const Environment& place) {
    const auto group = meet(place, minutes(1));
    std::vector<std::byte> data(8);
    if (place.rank == 0) group->all_reduce(data, Dtype::float64);
    if (place.rank == 1) group->broadcast(data, 0);
  });
  // Both see it, and both say what the first of them said.
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_EQ(outcomes[0].message, outcomes[1].message);
  EXPECT_THAT(outcomes[0].message, AllOf(HasSubstr("failed: calls"), HasSubstr("all_reduce of 8 B"),
                                         HasSubstr("broadcast of 8 B")));
}

TEST(SharedMemory, LeavesNothingInDevShmEvenWhenKilled) {
  // Other programs come and go there, so it is asked of what the ranks have mapped.
  const auto is_nameless = [] {
    std::ifstream mappings("/proc/self/maps");
    const std::string all{std::istreambuf_iterator<char>(mappings), {}};
    return all.find("/memfd:") != std::string::npos && all.find("/dev/shm/") == std::string::npos;
  };
  const auto outcomes = run_ranks(2, [&](const Environment& place) {
    const auto group = meet(place, minutes(1));
    const auto arena = group->allocate_arena(1_MiB);
    group->barrier();
    if (!is_nameless()) throw std::runtime_error("a name in /dev/shm");
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_THAT(outcomes,
              ::testing::Each(RankOutcome{.exit_code = 0, .signal = SIGKILL, .message = ""}));
}

}  // namespace
}  // namespace shardscope::testing
