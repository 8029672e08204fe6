#include "backend/comm/pairwise_tree.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/comm/byte_range.h"
#include "core/base/bfloat16.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

/// The rule said another way: add neighbours, level by level, and carry an odd one up.
std::string order_level_by_level(int ranks) {
  std::vector<std::string> level;
  for (int r = 0; r < ranks; ++r) level.push_back(std::to_string(r));
  while (level.size() > 1) {
    std::vector<std::string> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back("(" + level[i] + "+" + level[i + 1] + ")");
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  return level.front();
}

std::string order_by_halves(std::size_t first, std::size_t count) {
  if (count == 1) return std::to_string(first);
  const std::size_t left = pairwise_left_half(count);
  return "(" + order_by_halves(first, left) + "+" + order_by_halves(first + left, count - left) +
         ")";
}

TEST(PairwiseTree, HalvesAreTheLevels) {
  EXPECT_EQ(order_level_by_level(5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(order_level_by_level(7), "(((0+1)+(2+3))+((4+5)+6))");
  for (int ranks = 2; ranks <= 40; ++ranks) {
    EXPECT_EQ(order_by_halves(0, static_cast<std::size_t>(ranks)), order_level_by_level(ranks));
  }
}

/// Sums one value of each rank, spread over `count` elements.
template <class T>
std::vector<T> sum(Dtype dtype, const std::vector<T>& by_rank, std::size_t count) {
  std::vector<std::vector<T>> inputs;
  for (const T value : by_rank) inputs.emplace_back(count, value);
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) {
    sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  std::vector<T> out(count, T{77});
  pairwise_sum(dtype, sources, std::as_writable_bytes(std::span(out)));
  return out;
}

// Near 1e8 floats lie 8 apart, so that 1e8 + 1 is 1e8 again.
//   5: ((1e8 + 1) + (-1e8 + 1)) + 3 = 0 + 3
//   6: ((1e8 + 1) + (-1e8 + 1)) + (1 + 1) = 2
//   7: ((1 + 1) + (1e8 - 1e8)) + ((1e8 + 1) - 1e8) = 2 + 0
//   8: (2 + 0) + ((1e8 + 1) + (-1e8 + 1)) = 2
TEST(PairwiseTree, AddsNeighboursFirst) {
  using ::testing::Each;
  for (const std::size_t count : {1u, 3u, 4u, 17u, 1000u, 5001u}) {
    EXPECT_THAT(sum<float>(Dtype::float32, {5}, count), Each(5));
    EXPECT_THAT(sum<float>(Dtype::float32, {1e8f, 1}, count), Each(1e8f));
    EXPECT_THAT(sum<float>(Dtype::float32, {1, 1e8f, -1e8f}, count), Each(0));
    EXPECT_THAT(sum<float>(Dtype::float32, {1e8f, 1, -1e8f, 1}, count), Each(0));
    EXPECT_THAT(sum<float>(Dtype::float32, {1e8f, 1, -1e8f, 1, 3}, count), Each(3));
    EXPECT_THAT(sum<float>(Dtype::float32, {1e8f, 1, -1e8f, 1, 1, 1}, count), Each(2));
    EXPECT_THAT(sum<float>(Dtype::float32, {1, 1, 1e8f, -1e8f, 1e8f, 1, -1e8f}, count), Each(2));
    EXPECT_THAT(sum<float>(Dtype::float32, {1, 1, 1e8f, -1e8f, 1e8f, 1, -1e8f, 1}, count), Each(2));
  }
}

TEST(PairwiseTree, SumsFloat64InFull) {
  EXPECT_THAT(sum<double>(Dtype::float64, {1.0, 0x1p-50, 1.0}, 9), ::testing::Each(2.0 + 0x1p-50));
}

TEST(PairwiseTree, SumsInt64BeyondDoubles) {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  EXPECT_THAT(sum<std::int64_t>(Dtype::int64, {big, big}, 5), ::testing::Each(2 * big));
}

TEST(PairwiseTree, MayWriteOverASource) {
  for (std::size_t target = 0; target < 6; ++target) {
    std::vector<std::vector<float>> inputs;
    std::vector<const std::byte*> sources;
    for (int r = 0; r < 6; ++r) inputs.emplace_back(3001, static_cast<float>(1 << r));
    for (const auto& input : inputs) {
      sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
    }
    pairwise_sum(Dtype::float32, sources, std::as_writable_bytes(std::span(inputs[target])));
    EXPECT_THAT(inputs[target], ::testing::Each(63.0f));
  }
}

TEST(PairwiseTree, ReadsUnalignedSources) {
  std::vector<std::byte> raw(4 * 10 + 1);
  const std::vector<float> values(10, 1.5f);
  std::memcpy(raw.data() + 1, values.data(), 40);
  const std::vector<const std::byte*> sources{raw.data() + 1,
                                              reinterpret_cast<const std::byte*>(values.data())};
  std::vector<float> out(10);
  pairwise_sum(Dtype::float32, sources, std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(out, ::testing::Each(3.0f));
}

// bfloat16 has 8 significant bits: at 256 numbers lie 2 apart. Two at a time: 256 + 1 = 257 is
// half-way and becomes 256, so that rounding after each addition would give 256. In float32
// 256 + 1 + 1 = 258, which is kept.
TEST(PairwiseTree, AddsBfloat16InFloat32AndRoundsOnce) {
  for (const std::size_t count : {1u, 3u, 511u, 513u, 2000u}) {
    std::vector<std::vector<Bfloat16>> inputs;
    for (const float value : {256.0f, 1.0f, 1.0f}) inputs.emplace_back(count, to_bfloat16(value));
    std::vector<const std::byte*> sources;
    for (const auto& input : inputs)
      sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
    pairwise_sum(Dtype::bfloat16, sources, std::as_writable_bytes(std::span(inputs[1])));
    for (const Bfloat16 sum : inputs[1]) ASSERT_EQ(to_float(sum), 258.0f);
  }
}

TEST(PairwiseTree, RoundsBfloat16AsTheScalarTypeDoes) {
  // Ties to even, infinities, NaN and a sum beyond the range, at every place of a vector and tail.
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> a{1.0f, 3.0f, infinity, -1.0f, infinity, 0x1.FEp127f, -0.0f};
  const std::vector<float> b{0x1p-8f, 0x1p-7f, 1.0f, -0x1p-8f, -infinity, 0x1p119f, -0.0f};
  for (std::size_t count = 1; count <= 21; ++count) {
    std::vector<Bfloat16> first, second, out(count);
    for (std::size_t i = 0; i < count; ++i) {
      first.push_back(to_bfloat16(a[i % a.size()]));
      second.push_back(to_bfloat16(b[i % b.size()]));
    }
    const std::vector<const std::byte*> sources{reinterpret_cast<const std::byte*>(first.data()),
                                                reinterpret_cast<const std::byte*>(second.data())};
    pairwise_sum(Dtype::bfloat16, sources, std::as_writable_bytes(std::span(out)));
    for (std::size_t i = 0; i < count; ++i) {
      const Bfloat16 expected = to_bfloat16(to_float(first[i]) + to_float(second[i]));
      const bool both_nan = std::isnan(to_float(expected)) && std::isnan(to_float(out[i]));
      EXPECT_TRUE(both_nan || out[i].bits == expected.bits) << i << " of " << count;
    }
  }
}

TEST(PairwiseTree, RefusesOtherDtypes) {
  std::vector<std::byte> out(2);
  const std::vector<const std::byte*> sources{out.data()};
  EXPECT_THROW(pairwise_sum(Dtype::float16, sources, out), Error);
}

TEST(ByteRange, SharesOutWholeCacheLines) {
  // 200 B among 3 ranks are 4 lines of 64 B, so 2 lines each: 128, 72, nothing.
  EXPECT_EQ(part_of(200, 0, 3), (ByteRange{0, 128}));
  EXPECT_EQ(part_of(200, 1, 3), (ByteRange{128, 200}));
  EXPECT_EQ(part_of(200, 2, 3), (ByteRange{200, 200}));
  EXPECT_EQ(part_of(0, 1, 2), (ByteRange{0, 0}));
  EXPECT_EQ(part_of(128, 1, 2), (ByteRange{64, 128}));
}

}  // namespace
}  // namespace shardscope
