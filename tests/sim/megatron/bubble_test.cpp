// The bubble of Megatron-LM's schedules beside its closed forms: (p - 1) / m of the time that a
// rank computes, (p - 1) / (v m) interleaved (arXiv:2104.04473, sections 2.2 and 2.3).
#include "sim/megatron/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace shardscope::testing {
namespace {

constexpr Duration forward{1'000'000}, backward{2'000'000};

/// Of stages that take alike, without transfers: how much longer the step takes than a rank
/// computes.
double bubble(int ranks, int stages_per_rank, int micro_batches) {
  const MegatronPipeline pipeline{.ranks = ranks, .stages_per_rank = stages_per_rank};
  const PipelineTimes times{
      .chunks = std::vector<ChunkTime>(
          static_cast<std::size_t>(ranks * stages_per_rank),
          {.forward = forward, .input_backward = backward, .weight_backward = {}}),
      .transfer = [](int, int) { return Duration{}; }};
  Duration end;
  for (const auto& rank : pipeline_timeline(megatron_programs(pipeline, micro_batches), times))
    for (const PlayedAction& one : rank) end = std::max(end, one.end);
  const double computes = (forward + backward).seconds() * stages_per_rank * micro_batches;
  return end.seconds() / computes - 1;
}

TEST(MegatronBubble, IsThatOfTheClosedForm) {
  for (const int ranks : {1, 2, 4, 8})
    for (const int micro_batches : {1, 3, 8, 32})
      EXPECT_NEAR(bubble(ranks, 1, micro_batches), (ranks - 1.0) / micro_batches, 1e-9)
          << ranks << " ranks, " << micro_batches << " micro-batches";
}

TEST(MegatronBubble, IsDividedByVirtualStages) {
  for (const int ranks : {2, 4, 8})
    for (const int stages : {2, 3, 4})
      for (const int groups : {1, 2, 4})
        EXPECT_NEAR(bubble(ranks, stages, groups * ranks),
                    (ranks - 1.0) / (stages * groups * ranks), 1e-9)
            << ranks << " ranks of " << stages << ", " << groups << " groups";
}

}  // namespace
}  // namespace shardscope::testing
