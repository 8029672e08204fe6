// What a training job keeps in memory. It runs alone: pages of libraries count for less while other
// processes have them, too.
#include <gtest/gtest.h>

#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"
#include "tests/sanitizers/sanitized.h"
#include "traces/summary.h"

namespace shardscope {
namespace {

using ResidentMemory = TrainingFixture;

TEST_F(ResidentMemory, IsTheArenaAndTheStatedRest) {
  if (test::is_sanitized) GTEST_SKIP() << "a sanitizer's allocator keeps what is freed";
  Job big = job(medium_gpt2, 2, ShardingStrategy::full_shard, "run");
  big.steps = 2;
  big.seq = 256;
  big.check = false;
  big.save_model = false;
  run_forked(big);
  const Summary summary = read_summary(big.output / "summary.json");
  const double stated = static_cast<double>((summary.memory.arena + summary.memory.outside).count);
  EXPECT_GT(stated, 40e6);
  EXPECT_NEAR(static_cast<double>(summary.memory.pss.count), stated, 0.05 * stated);
}

}  // namespace
}  // namespace shardscope
