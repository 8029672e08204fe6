// A recording of the real PyTorch, played: tests/data/recordings.
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "core/recording/recorded_schedule.h"
#include "sim/hardware/builtin_profiles.h"
#include "sim/prediction/prediction.h"

namespace shardscope {
namespace {

const std::filesystem::path recordings =
    std::filesystem::path(SOURCE_ROOT) / "tests/data/recordings";

class RecordedRun : public ::testing::Test {
 protected:
  Recording read() const {
    return read_recording(recordings / "fsdp2_rank1_of_4.txt", {.world = 4, .rank = 1});
  }
};

// What the recorded process asked of its own allocator, asked of our model of it.
TEST_F(RecordedRun, OurAllocatorReachesThePeaksThatPyTorchsReported) {
  const Recording recording = read();
  ASSERT_TRUE(recording.peaks);
  const Prediction prediction = predict(recording.schedule, {.strategy = "recorded"},
                                        find_hardware_profile("h100_sxm", "test"));
  const MemorySummary& memory = prediction.summary.memory;
  EXPECT_EQ(memory.peak_allocated, recording.peaks->allocated);
  EXPECT_EQ(memory.peak_active, recording.peaks->active);
  EXPECT_EQ(memory.peak_reserved, recording.peaks->reserved);
}

// Played in one pool, and without emptying the cache, it reserves 374 MiB.
TEST(RecordedGraph, ItsPoolAndEmptiedCachesReachThePeaksThatPyTorchReported) {
  const Recording recording = read_recording(recordings / "cuda_graph.txt", {});
  ASSERT_TRUE(recording.peaks);
  EXPECT_EQ(recording.peaks->reserved, 156_MiB);
  const Prediction prediction = predict(recording.schedule, {.strategy = "recorded"},
                                        find_hardware_profile("h100_sxm", "test"));
  const MemorySummary& memory = prediction.summary.memory;
  EXPECT_EQ(memory.peak_allocated, recording.peaks->allocated);
  EXPECT_EQ(memory.peak_active, recording.peaks->active);
  EXPECT_EQ(memory.peak_reserved, recording.peaks->reserved);
}

// fully_shard of two layers on 4 ranks: each is gathered in forward and again in backward.
TEST_F(RecordedRun, EachLayerIsGatheredAndReduced) {
  const Schedule schedule = read().schedule;
  ASSERT_EQ(schedule.steps.size(), 2u);
  // (32 x 64 + 64) / 4 and (64 x 8 + 8) / 4 float32 of this rank.
  int gathers = 0, reductions = 0;
  for (const Operation& operation : schedule.operations) {
    if (operation.step != 1 || !is_collective(operation.kind)) continue;
    const Collective& collective = schedule.collectives[operation.detail];
    EXPECT_EQ(schedule.groups[collective.group.value].ranks, Ranks::up_to(4));
    if (operation.kind == OperationKind::all_gather) {
      ++gathers;
      EXPECT_TRUE(collective.elements_in == 528 || collective.elements_in == 130);
    } else if (operation.kind == OperationKind::reduce_scatter) {
      ++reductions;
      EXPECT_TRUE(collective.elements_out == 528 || collective.elements_out == 130);
    }
  }
  EXPECT_EQ(gathers, 4);
  EXPECT_EQ(reductions, 2);
}

}  // namespace
}  // namespace shardscope
