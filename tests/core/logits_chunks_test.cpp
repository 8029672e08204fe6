// The head and the loss chunk by chunk: how many rows, in which order, and what is alive meanwhile.
#include "core/native/logits_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/model_flops.h"
#include "core/schedule/schedule.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;

/// small_gpt2: V 16, C 8, float32; 2 sequences of 6 tokens are 12 rows of 64 bytes of logits.
Schedule schedule_with(Bytes logits, int micro_batches = 1) {
  const Strategy strategy = resolved({.sharding = ShardingStrategy::no_shard}, 1, "test");
  return native_schedule(testing::small_gpt2(1), strategy,
                         {.batch = 2, .length = 6, .micro_batches = micro_batches}, 0,
                         {.logits = logits});
}

/// Names and phases of what uses the logits and what counts their rows.
std::vector<std::string> head_operations(const Schedule& schedule) {
  std::vector<std::string> found;
  for (const Operation& op : schedule.operations) {
    const std::string name(schedule.name(op));
    if (name.starts_with("lm_head") || name.starts_with("loss"))
      found.push_back(std::string(name_of(op.phase)) + " " + name);
  }
  return found;
}

TEST(LogitsChunks, AreEvenMultiplesOf128WithinTheBound) {
  // GPT-2 in bfloat16: 50,264 * 2 bytes a row, 2^30 / 100,528 = 10,680 rows fit: 4 chunks.
  LogitsChunks chunks = logits_chunks(32768, 50257, Dtype::bfloat16, most_logits);
  EXPECT_EQ(chunks.stride, 50264);
  EXPECT_EQ(chunks.rows, 8192);
  EXPECT_EQ(chunks.count, 4);
  // Half as many fit in float32: 5340; 10,000 rows are two chunks of 5000, rounded up to 5120.
  chunks = logits_chunks(10000, 50257, Dtype::float32, most_logits);
  EXPECT_EQ(chunks.rows, 5120);
  EXPECT_EQ(chunks.count, 2);
}

TEST(LogitsChunks, AreOneWhereAllFits) {
  const LogitsChunks chunks = logits_chunks(8192, 50257, Dtype::bfloat16, most_logits);
  EXPECT_EQ(chunks.rows, 8192);
  EXPECT_EQ(chunks.count, 1);
}

TEST(LogitsChunks, HaveAtLeastOneRowAndAreNoMoreThan1024) {
  EXPECT_EQ(logits_chunks(7, 1000, Dtype::float32, Bytes{1}).count, 7);
  EXPECT_EQ(logits_chunks(std::int64_t{1} << 31, 1000, Dtype::float32, Bytes{1}).count, 1024);
}

TEST(LogitsChunks, RunForwardLossAndGradientsOneAfterTheOther) {
  // 320 bytes are 5 rows: chunks of 5, 5 and 2.
  const Schedule schedule = schedule_with(320_B);
  EXPECT_THAT(
      head_operations(schedule),
      ElementsAre("forward loss count_targets", "forward lm_head[0] linear_forward",
                  "forward loss[0] cross_entropy", "backward lm_head[0] linear_backward_weight",
                  "backward lm_head[0] linear_backward_input", "forward lm_head[1] linear_forward",
                  "forward loss[1] cross_entropy", "backward lm_head[1] linear_backward_weight",
                  "backward lm_head[1] linear_backward_input", "forward lm_head[2] linear_forward",
                  "forward loss[2] cross_entropy", "backward lm_head[2] linear_backward_weight",
                  "backward lm_head[2] linear_backward_input"));
}

/// The kernels of that name, in the order of their operations.
std::vector<Kernel> kernels_named(const Schedule& schedule, const std::string& part) {
  std::vector<Kernel> kernels;
  for (const Operation& op : schedule.operations)
    if (std::string(schedule.name(op)).find(part) != std::string::npos)
      kernels.push_back(schedule.kernels[op.detail]);
  return kernels;
}

TEST(LogitsChunks, AddUpTheWeightsGradientAndWriteEachRowsInputGradientOnce) {
  for (const int micro_batches : {1, 2}) {
    const auto weights =
        kernels_named(schedule_with(320_B, micro_batches), "] linear_backward_weight");
    ASSERT_EQ(weights.size(), 3u * static_cast<std::size_t>(micro_batches));
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_EQ(weights[i].get<LinearBackwardWeightKernel>().accumulate, i > 0) << i;
  }
  for (const Kernel& kernel : kernels_named(schedule_with(320_B), "] linear_backward_input"))
    EXPECT_FALSE(kernel.get<LinearBackwardInputKernel>().accumulate_input);
}

TEST(LogitsChunks, TakeTheirPlaceOfInputsAndGradients) {
  const Schedule schedule = schedule_with(320_B);
  // Rows 10 and 11 of 12: 8 floats each in x and its gradient, targets of 4 bytes.
  for (const Operation& op : schedule.operations) {
    const auto operands = schedule.operands_of(op);
    if (schedule.name(op) == "lm_head[2] linear_backward_weight") {
      EXPECT_EQ(operands[0].offset, 320_B);
      EXPECT_EQ(operands[0].bytes, 64_B);
    }
    if (schedule.name(op) == "lm_head[2] linear_backward_input") {
      EXPECT_EQ(operands[2].offset, 320_B);
      EXPECT_EQ(operands[2].bytes, 64_B);
    }
    if (schedule.name(op) == "loss[2] cross_entropy") {
      EXPECT_EQ(operands[0].offset, 40_B);
      EXPECT_EQ(operands[0].bytes, 8_B);
    }
  }
}

/// While the head and the loss run, where a model with many tokens has its peak.
Bytes peak_at_the_head(const Schedule& schedule) {
  const std::vector<CategoryBytes> live = live_bytes(schedule);
  Bytes peak;
  for (std::size_t i = 0; i < live.size(); ++i)
    if (schedule.name(schedule.operations[i]).starts_with("lm_head"))
      peak = std::max(peak, live[i].total());
  return peak;
}

TEST(LogitsChunks, LowerThePeakByTheLogitsThatDoNotExist) {
  // All logits are 12 * 64 = 768 bytes, beside them x or its gradient (12 * 32 = 384). A chunk's
  // are 320, beside them both and the count of targets, 8.
  EXPECT_EQ(peak_at_the_head(schedule_with(most_logits)) - peak_at_the_head(schedule_with(320_B)),
            (768_B + 384_B) - (320_B + 2 * 384_B + 8_B));
}

TEST(LogitsChunks, ChangeNoModelFlops) {
  // But for the 12 additions that count targets in the forward.
  EXPECT_EQ(model_flops(schedule_with(320_B)).count - 12,
            model_flops(schedule_with(most_logits)).count);
}

}  // namespace
}  // namespace shardscope
