#include "backend/comm/gpu_place.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

Environment local(int rank, int world) {
  Environment environment;
  environment.rank = 10 + rank;  // of all hosts, of no account here
  environment.world = 100;
  environment.local_rank = rank;
  environment.local_world = world;
  return environment;
}

TEST(GpuPlace, EachLocalRankHasItsOwnWhereThereAreEnough) {
  EXPECT_EQ(gpu_place(local(0, 4), 8), (GpuPlace{.index = 0, .is_shared = false}));
  EXPECT_EQ(gpu_place(local(3, 4), 4), (GpuPlace{.index = 3, .is_shared = false}));
}

TEST(GpuPlace, TooFewAreShared) {
  EXPECT_EQ(gpu_place(local(3, 4), 1), (GpuPlace{.index = 0, .is_shared = true}));
  EXPECT_EQ(gpu_place(local(3, 4), 2), (GpuPlace{.index = 1, .is_shared = true}));
}

TEST(GpuPlace, SlurmBindsGpusToTasks) {
  Environment task = local(3, 4);
  task.started_by = StartedBy::slurm;
  EXPECT_EQ(gpu_place(task, 1), (GpuPlace{.index = 0, .is_shared = false}));
}

// Where there is none, the device says so when it is made.
TEST(GpuPlace, WithoutGpusIsTheFirst) {
  EXPECT_EQ(gpu_place(local(0, 1), 0), (GpuPlace{.index = 0, .is_shared = false}));
}

}  // namespace
}  // namespace shardscope
