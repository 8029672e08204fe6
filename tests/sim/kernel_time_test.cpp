// Expected times are worked out by hand for a device of round figures: 10 multiprocessors, 10
// TFLOP/s, 100 GB/s.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "sim/kernels/attention_time.h"
#include "sim/kernels/matmul_time.h"
#include "sim/kernels/memory_time.h"
#include "sim/kernels/work_time.h"

namespace shardscope {
namespace {

constexpr RooflineFigures device{
    .multiprocessors = 10, .peak = {10e12}, .memory_bandwidth = {100e9}};

DeviceEfficiency efficiency() {
  DeviceEfficiency all{.name = "test"};
  all.matmul = {.tiles = {{.m = 100, .n = 100}},
                .reached = {{Dtype::bfloat16, 0.5}, {Dtype::float32, 0.25}},
                .wave_loss = 1};
  all.memory = {.share = {{WorkKind::pointwise, 0.5}, {WorkKind::norm_backward, 0.1}},
                .latency = 2_us};
  all.attention = {{.head_dim = 64, .forward = 0.5, .backward = 0.25, .half_length = 1000}};
  return all;
}

TEST(MatmulWaves, ALastOneCountsAsMuchAsItsTilesAreNotShared) {
  EXPECT_DOUBLE_EQ(matmul_waves(5, 10, 1), 1);  // half of the device idles
  EXPECT_DOUBLE_EQ(matmul_waves(20, 10, 1), 2);
  EXPECT_DOUBLE_EQ(matmul_waves(21, 10, 1), 3);    // 2.1 waves: a third one for a tile
  EXPECT_DOUBLE_EQ(matmul_waves(21, 10, 0), 2.1);  // stream-k
  EXPECT_DOUBLE_EQ(matmul_waves(21, 10, 0.5), 2.55);
}

TEST(MatmulTime, IsWavesOfTilesAtTheRateThatIsReached) {
  // 1000 x 1000 by tiles of 100 x 100 is 100 tiles, 10 waves; each 2 x 1e4 x 1e5 = 2e9 flops at
  // 5e12 / 10 a multiprocessor: 4 ms. The operands' 402 MB take 8 ms at 50 GB/s.
  const MatmulShape shape{.batch = 1, .m = 1000, .n = 1000, .k = 100'000};
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, device, efficiency()), 40_ms + 2_us);
  EXPECT_EQ(matmul_time(shape, Dtype::float32, device, efficiency()), 80_ms + 2_us);
}

TEST(MatmulTime, AnElementMoreIsAWaveMore) {
  // 1001 rows are 11 x 10 = 110 tiles: 11 waves.
  const MatmulShape shape{.batch = 1, .m = 1001, .n = 1000, .k = 100'000};
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, device, efficiency()), 44_ms + 2_us);
}

TEST(MatmulTime, WhatACardsProductsReachedStandsInThePlaceOfAShareOfItsPeak) {
  // Twice the peak at 800 W: a quarter of the 40 ms. An eighth of the power halves it, more does
  // not help.
  const MatmulShape shape{.batch = 1, .m = 1000, .n = 1000, .k = 100'000};
  RooflineFigures measured = device;
  measured.memory_bandwidth = {1e12};
  measured.reached = 2;
  measured.reached_power = {800};
  const auto time_at = [&](double watts) {
    measured.power_limit = {watts};
    return matmul_time(shape, Dtype::bfloat16, measured, efficiency()) - 2_us;
  };
  EXPECT_EQ(time_at(800), 10_ms);
  EXPECT_EQ(time_at(100), 20_ms);
  EXPECT_EQ(time_at(1600), 10_ms);
}

TEST(MatmulTime, TheClockFollowsTheCubeRootOfThePowerLimit) {
  // At 800 W the full clock would be kept but for a fifth: 50 ms for the 40; an eighth of the
  // power halves that again.
  DeviceEfficiency all = efficiency();
  all.matmul.power = {800};
  all.matmul.clock = 0.8;
  RooflineFigures capped = device;
  capped.power_limit = {100};
  const MatmulShape shape{.batch = 1, .m = 1000, .n = 1000, .k = 100'000};
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, capped, all), 100_ms + 2_us);
  capped.power_limit = {800};
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, capped, all), 50_ms + 2_us);
  EXPECT_EQ(matmul_time(shape, Dtype::float32, capped, all), 80_ms + 2_us);  // not at its limit
  capped.power_limit = {16000};  // more does not help: the clock has a limit of its own
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, capped, all), 40_ms + 2_us);
}

TEST(MatmulTime, AVocabularyThatIsNoMultipleOfEightIsSlow) {
  // 50257 columns are 503 tiles of 100 and 10 of rows: 503 waves of 4 ms / 100; half the rate takes
  // twice as long; 50264 are as many tiles.
  DeviceEfficiency all = efficiency();
  all.matmul.unaligned = 0.5;
  MatmulShape shape{.batch = 1, .m = 1000, .n = 50257, .k = 1000};
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, device, all), 80_us * 503 + 2_us);
  shape.n = 50264;
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, device, all), 40_us * 503 + 2_us);
  shape.n = 50260;  // 16 bytes of float32
  EXPECT_EQ(matmul_time(shape, Dtype::float32, device, all), 80_us * 503 + 2_us);
}

TEST(MatmulTime, HeadsThatAreNoMultipleOfEightAreSlowInBatches) {
  DeviceEfficiency all = efficiency();
  all.matmul.unaligned = 0.5;
  MatmulShape heads{.batch = 4, .m = 1000, .n = 1000, .k = 150};
  const auto computing = [&] { return matmul_time(heads, Dtype::bfloat16, device, all) - 2_us; };
  const Duration others = computing();
  all.matmul.unaligned_batch = 0.05;
  EXPECT_EQ(computing(), others * 10);
  heads.k = 152;  // 304 bytes
  EXPECT_LT(computing(), others);
  // Heads of 152 and 1,001 tokens: the shortest dimension is aligned.
  heads.m = 1001;
  const Duration of_tokens = computing();
  all.matmul.unaligned_batch.reset();
  EXPECT_EQ(computing(), of_tokens);
}

TEST(MatmulTime, ADeepProductOfFewTilesIsSplitAlongItsDepth) {
  // One tile alone: 2 x 1e4 x 1e6 flops on one multiprocessor of 5e11: 40 ms. In 8 parts on 8 of
  // them 5 ms, and 2 x 8 x 40,000 bytes of partial sums at 100 GB/s: 6.4 us. 16 parts are two
  // waves of 2.5 ms, and twice the sums.
  DeviceEfficiency fast_memory = efficiency();
  fast_memory.memory.share[WorkKind::matmul] = 4;
  const MatmulShape shape{.batch = 1, .m = 100, .n = 100, .k = 1'000'000};
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, device, fast_memory), 5_ms + 6'400_ns + 2_us);
}

TEST(MatmulTime, IsNoShorterThanItsOperandsTake) {
  // A vector: one column. 1e8 + 1e4 + 1e4 elements of 2 bytes at 50 GB/s = 4.0008 ms.
  const MatmulShape shape{.batch = 1, .m = 10'000, .n = 1, .k = 10'000};
  EXPECT_EQ(matmul_time(shape, Dtype::bfloat16, device, efficiency()), 4'000'800_ns + 2_us);
}

TEST(MemoryBoundTime, IsALatencyALaunchAndBytesAtTheShareOfTheKind) {
  DeviceWork work{.kind = WorkKind::pointwise, .bytes = 50_MB};
  EXPECT_EQ(work_time(work, device, efficiency()), 1_ms + 2_us);
  work.kind = WorkKind::norm_backward;
  work.launches = 2;
  EXPECT_EQ(work_time(work, device, efficiency()), 5_ms + 4_us);
  work.kind = WorkKind::gather;  // no figure: as pointwise
  EXPECT_EQ(work_time(work, device, efficiency()), 1_ms + 4_us);
}

DeviceWork attention(std::int64_t heads, std::int64_t length, WorkKind kind) {
  DeviceWork work{.kind = kind, .dtype = Dtype::bfloat16};
  work.attention = {.batch = 1,
                    .heads = heads,
                    .kv_heads = heads,
                    .queries = length,
                    .keys = length,
                    .head_dim = 64,
                    .library = AttentionLibrary::flash};
  work.flops = attention_flops(work.attention, kind == WorkKind::attention_backward);
  return work;
}

TEST(AttentionTime, ReachesHalfItsShareAtTheHalfLength) {
  // 10 heads, 1000 x 1000 scores, 2 products of 128 flops a score: 2.56e9 at 10e12 x 0.5 / 2.
  EXPECT_EQ(work_time(attention(10, 1000, WorkKind::attention_forward), device, efficiency()),
            1'024_us + 2_us);
  // 5 products at half the share.
  EXPECT_EQ(work_time(attention(10, 1000, WorkKind::attention_backward), device, efficiency()),
            5'120_us + 2_us);
}

// 100 keys for each of 1000 queries, as under a causal mask over 200: a sixth of the share. 1e5
// pairs, 10 heads, 2 products of 128 flops a pair: 2.56e8 at 10e12 x 0.5 / 6.
TEST(AttentionTime, AWindowIsCheaperAndReachesLess) {
  DeviceWork work = attention(10, 1000, WorkKind::attention_forward);
  work.attention.pairs = 100'000;
  work.flops = attention_flops(work.attention, false);
  EXPECT_NEAR(work_time(work, device, efficiency()).seconds(), 307.2e-6 + 2e-6, 1e-9);
  // A causal mask that is counted is one of all 1000 keys: half, and the diagonal, of 1,024 us.
  work.attention.pairs = 1000 * 1001 / 2;
  work.flops = attention_flops(work.attention, false);
  EXPECT_NEAR(work_time(work, device, efficiency()).seconds(), 512.512e-6 + 2e-6, 1e-9);
}

TEST(AttentionTime, TheClockFollowsTheCubeRootOfThePowerLimit) {
  // 1,024 us at full clock; an eighth of the power halves the clock, and twice the power keeps it.
  DeviceEfficiency all = efficiency();
  all.attention.front().power = {800};
  RooflineFigures capped = device;
  const DeviceWork work = attention(10, 1000, WorkKind::attention_forward);
  capped.power_limit = {100};
  EXPECT_EQ(work_time(work, capped, all), 2'048_us + 2_us);
  capped.power_limit = {1600};
  EXPECT_EQ(work_time(work, capped, all), 1'024_us + 2_us);
  capped.power_limit = {100};
  EXPECT_EQ(work_time(work, capped, efficiency()), 1'024_us + 2_us);  // of a limit not known
  EXPECT_EQ(work_time(work, device, all), 1'024_us + 2_us);
}

TEST(AttentionTime, FewBlocksLeaveMultiprocessorsIdle) {
  // One head of 512 queries is 4 blocks of 128 on 10 multiprocessors; 512 of 1512 keys' share:
  // 512 x 512 x 256 flops / (10e12 x 0.5 x 512 / 1512 x 0.4) = 99.09 us.
  const Duration time =
      work_time(attention(1, 512, WorkKind::attention_forward), device, efficiency());
  EXPECT_NEAR(time.seconds() * 1e6, 99.09 + 2, 0.01);
}

TEST(AttentionTime, OfNothingIsALatency) {
  EXPECT_EQ(work_time({.kind = WorkKind::attention_forward}, device, efficiency()), 2_us);
}

TEST(AttentionRow, IsTheNearestHeadSizeOfTheLibraryElseFlashAttention2) {
  DeviceEfficiency all = efficiency();
  all.attention.push_back({.head_dim = 128, .forward = 0.6});
  all.attention.push_back({.library = AttentionLibrary::triton, .head_dim = 64, .forward = 0.2});
  EXPECT_EQ(attention_row(all, AttentionLibrary::flash, 80).head_dim, 64);
  EXPECT_EQ(attention_row(all, AttentionLibrary::flash, 96).head_dim, 128);  // the larger of two
  EXPECT_EQ(attention_row(all, AttentionLibrary::triton, 128).forward, 0.2);
  EXPECT_EQ(attention_row(all, AttentionLibrary::cudnn, 128).forward, 0.6);
  EXPECT_THROW(attention_row({}, AttentionLibrary::cudnn, 128), Error);
}

}  // namespace
}  // namespace shardscope
