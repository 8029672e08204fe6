// Our NCCL communicator over a stand-in for NCCL whose collectives move bytes among real processes:
// the contract, and what a lost rank or an error of NCCL leads to. Says nothing about NCCL itself.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/comm/queued_collectives.h"
#include "core/base/error.h"
#include "tests/backend/comm/communicator_contract.h"
#include "tests/backend/comm/nccl_contract.h"
#include "tests/backend/comm/stand_in_ranks.h"
#include "tests/backend/cuda/fenced_memory.h"
#include "tests/backend/cuda/stand_in_device.h"

namespace shardscope::test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::ContractCheck;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::RankOutcome;

class NcclContract : public ::testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(NcclContract, Holds) {
  const auto& [ranks, name] = GetParam();
  for (const ContractCheck& check : testing::contract_checks()) {
    if (check.name != name) continue;
    const auto outcomes = run_stand_in_ranks({.ranks = ranks}, [&](const StandInRank& rank) {
      const OpenFence open;
      check.run(*make_blocking(rank.world, rank.device.memory()));
    });
    EXPECT_THAT(outcomes, Each(RankOutcome{})) << outcomes.front().message;
  }
}

std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const ContractCheck& check : testing::contract_checks())
    if (!check.of_the_tree) names.emplace_back(check.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclContract,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::ValuesIn(check_names())),
                         [](const auto& parameters) {
                           return std::get<1>(parameters.param) + "_on_" +
                                  std::to_string(std::get<0>(parameters.param));
                         });

// On memory of the device, which the host reaches through copies alone: what the bundle for GPUs
// runs over NCCL.
TEST(NcclContractOfDeviceMemory, HoldsOverTheStandIn) {
  const auto outcomes = testing::run_ranks(3, testing::require_nccl_contract);
  EXPECT_THAT(outcomes, Each(RankOutcome{})) << outcomes.front().message;
}

/// Of a rank that is waited for; a rank that is well comes within it, on a busy machine, too.
constexpr milliseconds deadline{3000};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Sums the arena's first bytes on every rank, queued and then waited for by a barrier.
void sum_and_wait(const StandInRank& rank) {
  const auto arena = rank.world.allocate_arena(4_KiB);
  rank.world.all_reduce({arena->data(), 1024}, Dtype::float32);
  rank.world.barrier();
}

// Its host queues what the others queue, and its device never takes part.
TEST(NcclFailure, ADeviceThatHangsEndsAllRanksAfterTheDeadline) {
  const auto start = std::chrono::steady_clock::now();
  const auto outcomes =
      run_stand_in_ranks({.deadline = deadline, .fault = "hang:1:1"}, sum_and_wait);
  EXPECT_LT(seconds_since(start), 60);
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.exit_code, 4);
    EXPECT_THAT(outcome.message,
                AllOf(HasSubstr("no data moved within 3 s"), HasSubstr("all_reduce of 1024 B")));
  }
}

TEST(NcclFailure, ARankThatDoesNotComeIsNamed) {
  const auto outcomes = run_stand_in_ranks({.deadline = deadline}, [](const StandInRank& rank) {
    if (rank.place.rank == 1) std::this_thread::sleep_for(std::chrono::minutes(1));
    sum_and_wait(rank);
  });
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_THAT(outcomes[0].message,
              AllOf(HasSubstr("rank 1 did not come"), HasSubstr("all_reduce of 1024 B")));
}

TEST(NcclFailure, AnAsynchronousErrorEndsItsRankAtOnceInNcclsWords) {
  const auto outcomes =
      run_stand_in_ranks({.deadline = std::chrono::minutes(1), .fault = "fail:0:1"}, sum_and_wait);
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_THAT(outcomes[0].message, AllOf(HasSubstr("remote process exited"),
                                         HasSubstr("the stand-in was told to fail")));
  EXPECT_EQ(outcomes[1].exit_code, 4);
}

TEST(NcclFailure, ARankThatIsMissingAtTheStartEndsTheOthersByTheDeadline) {
  const auto outcomes = testing::run_ranks(2, [](const Environment& place) {
    if (place.rank == 0) join_stand_in_ranks(place, {.deadline = deadline}, sum_and_wait);
  });
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_THAT(outcomes[0].message, HasSubstr("rank 1 of 2 did not come"));
}

TEST(NcclFailure, DifferentCallsAreAnErrorOfNccl) {
  const auto outcomes = run_stand_in_ranks({}, [](const StandInRank& rank) {
    const auto arena = rank.world.allocate_arena(4_KiB);
    rank.world.all_reduce({arena->data(), rank.place.rank == 0 ? 64u : 128u}, Dtype::float32);
    rank.world.barrier();
  });
  EXPECT_THAT(outcomes[0].message, HasSubstr("call different collectives"));
}

// What a watchdog's thread sees and does.
TEST(NcclWatch, PendingCollectivesAreNamedAndAnAbortEndsThem) {
  const auto outcomes = run_stand_in_ranks(
      {.deadline = std::chrono::minutes(1), .fault = "hang:1:2"}, [](const StandInRank& rank) {
        QueuedCollectives& queued = *rank.world.queued();
        const auto arena = rank.world.allocate_arena(4_KiB);
        const std::span<std::byte> data{arena->data(), 1024};
        rank.world.all_reduce(data, Dtype::float32);
        rank.device.memory().wait();
        if (!queued.pending().empty()) throw std::runtime_error("not ended");
        rank.world.all_gather(data.first(512), data);
        const auto pending = queued.pending();
        if (pending.size() != 1 || pending[0].number != 1 ||
            text_of(pending[0].call) != "all_gather of 1024 B" ||
            pending[0].ranks != std::vector{0, 1})
          throw std::runtime_error("not what is pending");
        queued.abort("the watchdog's words");
        rank.device.memory().wait();
        rank.world.barrier();
      });
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.exit_code, 4);
    EXPECT_THAT(outcome.message, HasSubstr("the watchdog's words"));
  }
}

// Whether it was split off before the arena was there or after.
TEST(NcclMemory, IsRegisteredWithEveryCommunicator) {
  const auto outcomes = run_stand_in_ranks({}, [](const StandInRank& rank) {
    const auto before = rank.world.split(0);
    const auto arena = rank.world.allocate_arena(4_KiB);
    const auto after = rank.world.split(0);
    const auto registered = std::ranges::count(StandInDevice::get().calls(),
                                               RuntimeCall{"ncclCommRegister", -1, "4096"});
    if (registered != 3) throw std::runtime_error(std::to_string(registered));
  });
  EXPECT_THAT(outcomes, Each(RankOutcome{})) << outcomes.front().message;
}

TEST(NcclMemory, IsCudaMallocsWhereNcclHasNone) {
  const auto outcomes = run_stand_in_ranks({.fault = "no_memory"}, [](const StandInRank& rank) {
    const OpenFence open;
    const auto arena = rank.world.allocate_arena(4_KiB);
    auto* const value = reinterpret_cast<float*>(arena->data());
    *value = static_cast<float>(rank.place.rank + 1);
    rank.world.all_reduce({arena->data(), 4}, Dtype::float32);
    rank.world.barrier();
    if (*value != 3.0f) throw std::runtime_error("not the sum");
  });
  EXPECT_THAT(outcomes, Each(RankOutcome{})) << outcomes.front().message;
}

}  // namespace
}  // namespace shardscope::test
