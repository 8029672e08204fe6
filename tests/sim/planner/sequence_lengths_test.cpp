#include "sim/planner/sequence_lengths.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace shardscope::planner {
namespace {

// Two of 1 and 3: of four micro-batches of two one has 1 as its longest. 4 tokens in 2 x 4, in
// 2 x 2.5, and in one row of 4.
TEST(LengthFigures, OfTwoLengths) {
  const LengthFigures figures = length_figures({{1, 3}}, 4, 2);
  EXPECT_DOUBLE_EQ(figures.expected_longest, 2.5);
  EXPECT_DOUBLE_EQ(figures.padding_to_length_share, 0.5);
  EXPECT_DOUBLE_EQ(figures.padding_to_batch_share, 0.2);
  EXPECT_DOUBLE_EQ(figures.padding_when_packed_share, 0);
  EXPECT_DOUBLE_EQ(figures.cut_share, 0);
  EXPECT_DOUBLE_EQ(figures.at_peak_share, 0.75);
}

// What is longer than 2 is cut: 1 of 4 tokens. 1 and 2 do not share a row of 2: 3 of 4 are tokens.
TEST(LengthFigures, CutWhatIsLonger) {
  const LengthFigures figures = length_figures({{1, 3}}, 2, 1);
  EXPECT_DOUBLE_EQ(figures.cut_share, 0.25);
  EXPECT_DOUBLE_EQ(figures.padding_when_packed_share, 0.25);
}

// Best fit: 7 and 6 open rows of 10; 3 goes to the 7, and 4 to the 6: no padding. In the order of
// 3, 4, 6, 7 a first fit would take three rows.
TEST(LengthFigures, PackTheLongestFirst) {
  EXPECT_DOUBLE_EQ(length_figures({{3, 4, 6, 7}}, 10, 1).padding_when_packed_share, 0);
}

TEST(SequenceLengths, AreReadFromLinesAndLists) {
  EXPECT_EQ(read_lengths("5\n 3\r\n\n7\n", "f").ascending, (std::vector<std::int64_t>{3, 5, 7}));
  EXPECT_EQ(read_lengths(" [5, 3]", "f").ascending, (std::vector<std::int64_t>{3, 5}));
  EXPECT_DOUBLE_EQ(read_lengths("5\n3\n7", "f").mean(), 5);
}

TEST(SequenceLengths, SayWhereTheyCannotBeRead) {
  for (const char* text : {"5\n0\n", "5\nsix\n", "5\n1e9\n", "5\n-3\n"}) try {
      read_lengths(text, "lengths.txt");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("lengths.txt:2"), std::string::npos) << error.what();
    }
  EXPECT_THROW(read_lengths("\n", "lengths.txt"), Error);
  EXPECT_THROW(read_lengths("[1.5]", "lengths.json"), Error);
}

// The mean in the middle of 1 to 9 leaves all equally likely; another mean is met within a token.
TEST(SequenceLengths, OfAMeanAndAMaximum) {
  const SequenceLengths even = lengths_with(5, 9);
  EXPECT_EQ(std::count(even.ascending.begin(), even.ascending.end(), 1), 111);
  EXPECT_NEAR(lengths_with(512, 4096).mean(), 512, 5);
  EXPECT_EQ(lengths_with(512, 4096).longest(), 4096);
  EXPECT_NEAR(lengths_with(3000, 4096).mean(), 3000, 5);
  EXPECT_THROW(lengths_with(10, 9), Error);
  EXPECT_THROW(lengths_with(0.5, 9), Error);
}

// Of each order what is longer than all before: sums 12, 7 and 15 for orders 0, 1 and 2 of three.
// 101 orders have each of them 33 or 34 times, so that the median sum is 12.
TEST(GrowingLengths, AreThoseOfTheMedianOrder) {
  const std::vector<std::vector<std::int64_t>> runs{{3, 2, 9, 9}, {7, 1, 7}, {1, 5, 4, 9}};
  EXPECT_EQ(growing_lengths([&](std::uint32_t order) { return runs[order % 3]; }),
            (std::vector<std::int64_t>{3, 9}));
}

// A sequence of 9 tokens is cut at 7. Of 1,000 micro-batches of 4 one has none but the shorter
// ones in 16 cases.
TEST(GrowingLengths, OfMicroBatchesThatArePadded) {
  const SequenceLengths lengths{{5, 9}};
  const std::vector<std::int64_t> run = padded_run(lengths, 7, 4, 1000)(1);
  const auto shorter = std::count(run.begin(), run.end(), 5);
  EXPECT_NEAR(static_cast<double>(shorter), 1000.0 / 16, 25);
  EXPECT_EQ(std::count(run.begin(), run.end(), 7), 1000 - shorter);
  EXPECT_EQ(padded_run(lengths, 7, 4, 1000)(1), run);
}

}  // namespace
}  // namespace shardscope::planner
