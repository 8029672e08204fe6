#include "core/native/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/complaint.h"

namespace shardscope {
namespace {

using Kind = LearningRate::Kind;

TEST(LearningRate, ConstantIsThePeakAfterTheWarmUp) {
  const LearningRate rate{.kind = Kind::constant, .peak = 0.002, .warmup = 3};
  EXPECT_EQ(learning_rate(rate, 0), 0);
  EXPECT_DOUBLE_EQ(learning_rate(rate, 1), 0.002 / 3);
  EXPECT_EQ(learning_rate(rate, 3), 0.002);
  EXPECT_EQ(learning_rate({.peak = 0.5}, 0), 0.5);
}

TEST(LearningRate, LinearReachesZeroAndStays) {
  const LearningRate rate{.kind = Kind::linear, .peak = 0.002, .warmup = 3, .total = 20};
  EXPECT_DOUBLE_EQ(learning_rate(rate, 4), 0.002 * 16 / 17);
  EXPECT_EQ(learning_rate(rate, 20), 0);
  EXPECT_EQ(learning_rate(rate, 25), 0);
}

TEST(LearningRate, HuggingFacesCosineRisesAgain) {
  // Recorded from transformers' get_cosine_schedule_with_warmup(5, 40), peak 1e-3.
  const LearningRate rate{.kind = Kind::hf_cosine, .peak = 0.001, .warmup = 5, .total = 40};
  EXPECT_EQ(learning_rate(rate, 0), 0);
  EXPECT_DOUBLE_EQ(learning_rate(rate, 6), 0.0009979871469976197);
  EXPECT_DOUBLE_EQ(learning_rate(rate, 22), 0.0005224324151752575);
  EXPECT_NEAR(learning_rate(rate, 40), 0, 1e-18);
  EXPECT_NEAR(learning_rate(rate, 41), 2.012853002380466e-06, 1e-18);
}

TEST(LearningRate, CosineWithAFloor) {
  // Recorded from get_cosine_with_min_lr_schedule_with_warmup(4, 30, min_lr=1e-4), peak 1e-3.
  const LearningRate rate{
      .kind = Kind::hf_cosine_with_min, .peak = 0.001, .min = 0.0001, .warmup = 4, .total = 30};
  EXPECT_DOUBLE_EQ(learning_rate(rate, 1), 0.00025);
  EXPECT_DOUBLE_EQ(learning_rate(rate, 5), 0.0009967189933441244);
  EXPECT_DOUBLE_EQ(learning_rate(rate, 30), 0.0001);
}

TEST(LearningRate, NanoGptWarmsUpFromAboveZeroAndEndsAtMin) {
  const LearningRate rate{
      .kind = Kind::nanogpt_cosine, .peak = 1, .min = 0.1, .warmup = 4, .total = 12};
  EXPECT_DOUBLE_EQ(learning_rate(rate, 0), 0.2);  // 1 / 5
  EXPECT_DOUBLE_EQ(learning_rate(rate, 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate(rate, 8), 0.55);  // half way
  EXPECT_DOUBLE_EQ(learning_rate(rate, 12), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(rate, 50), 0.1);
}

TEST(LearningRate, TotalZeroIsTheRunsLength) {
  const LearningRate rate{.kind = Kind::linear, .peak = 1};
  EXPECT_DOUBLE_EQ(learning_rate(rate, 5, 20), 0.75);
}

TEST(LearningRate, NoScheduleDividesByZero) {
  for (const Kind kind : {Kind::constant, Kind::linear, Kind::hf_cosine, Kind::hf_cosine_with_min,
                          Kind::nanogpt_cosine})
    for (std::int64_t step = 0; step < 5; ++step)
      EXPECT_TRUE(
          std::isfinite(learning_rate({.kind = kind, .peak = 0, .warmup = 2, .total = 2}, step)));
}

TEST(LearningRate, NamesReadBack) {
  for (const std::string_view name : learning_rate_kinds())
    EXPECT_EQ(name_of(parse_learning_rate_kind(name, "")), name);
  EXPECT_THAT(complaint_of([] { parse_learning_rate_kind("cosin", "lr.kind"); }),
              testing::HasSubstr("lr.kind: \"cosin\" is none of constant, linear, hf_cosine"));
}

}  // namespace
}  // namespace shardscope
