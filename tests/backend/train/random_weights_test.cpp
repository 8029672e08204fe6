#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "backend/train/philox.h"
#include "backend/train/random_weights.h"

namespace shardscope {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Random123 1.14, tests/kat_vectors, "philox4x32 10".
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Parameter normal(std::string name) {
  return {.name = std::move(name),
          .shape = {100, 100},
          .initialization = {.kind = Initialization::Kind::normal, .standard_deviation = 0.5}};
}

std::vector<float> drawn(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
                         std::size_t count) {
  std::vector<float> out(count);
  draw(parameter, seed, first, out);
  return out;
}

TEST(RandomWeights, ASliceIsThatPartOfTheWhole) {
  const auto whole = drawn(normal("w"), 1, 0, 100);
  for (const std::int64_t first : {1, 2, 3, 4, 50}) {
    EXPECT_EQ(drawn(normal("w"), 1, first, 7),
              std::vector<float>(whole.begin() + first, whole.begin() + first + 7));
  }
}

TEST(RandomWeights, AreTheSameByThreads) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{100003}}) {
    std::vector<float> out(count);
    draw_by_threads(normal("w"), 1, 3, out, 3);
    EXPECT_EQ(out, drawn(normal("w"), 1, 3, count)) << count;
  }
}

TEST(RandomWeights, DependOnNameAndSeed) {
  EXPECT_NE(drawn(normal("w"), 1, 0, 4), drawn(normal("v"), 1, 0, 4));
  EXPECT_NE(drawn(normal("w"), 1, 0, 4), drawn(normal("w"), 2, 0, 4));
  EXPECT_NE(drawn(normal("w"), 1, 0, 4), drawn(normal("w"), std::uint64_t{1} << 32 | 1, 0, 4));
}

TEST(RandomWeights, HaveTheDeviationThatWasAskedFor) {
  const auto values = drawn(normal("w"), 1, 0, 100000);
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  double neighbours = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i] / 0.5;
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    if (i > 0) neighbours += x * values[i - 1] / 0.5;
  }
  const double n = static_cast<double>(values.size());
  // Five standard errors: 1, sqrt 2, sqrt 96 and 1 over sqrt n.
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourths / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(neighbours / n, 0, 5 / std::sqrt(n));
}

TEST(RandomWeights, ZerosAndOnes) {
  Parameter parameter = normal("b");
  parameter.initialization.kind = Initialization::Kind::zeros;
  EXPECT_EQ(drawn(parameter, 1, 0, 2), (std::vector<float>{0, 0}));
  parameter.initialization.kind = Initialization::Kind::ones;
  EXPECT_EQ(drawn(parameter, 1, 0, 2), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace shardscope
