// NCCL itself, several ranks on one GPU. Skipped where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/cuda/cuda_device.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/backend/comm/nccl_contract.h"

namespace shardscope::testing {
namespace {

/// Asked in a process of its own: a GPU that this one knows cannot be used by those it forks.
bool has_gpu() {
  return run_ranks(1, [](const Environment&) {
           return why_no_cuda_device().empty() ? ExitCode::done : ExitCode::outside;
         }).front() == RankOutcome{};
}

class NcclOnAGpu : public ::testing::TestWithParam<int> {};

TEST_P(NcclOnAGpu, KeepsTheContract) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU can be used here";
  for (const RankOutcome& outcome : run_ranks(GetParam(), require_nccl_contract))
    EXPECT_EQ(outcome, RankOutcome{});
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclOnAGpu, ::testing::Values(1, 2, 4),
                         [](const auto& ranks) { return "on_" + std::to_string(ranks.param); });

}  // namespace
}  // namespace shardscope::testing
