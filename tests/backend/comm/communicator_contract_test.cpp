// The contract on the group of one and on shared memory among 2, 3 and 4 real processes. MPI:
// mpi_contract.cpp. NCCL: nccl_communicator_test.cpp.
#include <chrono>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/job/make_communicator.h"
#include "tests/backend/comm/communicator_contract.h"
#include "tests/backend/comm/forked_ranks.h"

namespace shardscope::testing {
namespace {

class CommunicatorContract : public ::testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(CommunicatorContract, Holds) {
  const auto& [ranks, name] = GetParam();
  for (const ContractCheck& check : contract_checks()) {
    if (check.name != name) continue;
    const auto outcomes = run_ranks(ranks, [&](const Environment& place) {
      const auto group =
          make_communicator(CommunicatorChoice::shared_memory, place, std::chrono::seconds(60));
      check.run(*group);
    });
    EXPECT_THAT(outcomes, ::testing::Each(RankOutcome{})) << outcomes.front().message;
  }
}

std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const ContractCheck& check : contract_checks()) names.emplace_back(check.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommunicatorContract,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::ValuesIn(check_names())),
                         [](const auto& parameters) {
                           return std::get<1>(parameters.param) + "_on_" +
                                  std::to_string(std::get<0>(parameters.param));
                         });

}  // namespace
}  // namespace shardscope::testing
