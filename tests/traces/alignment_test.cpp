#include "traces/match/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "traces/match/sequence_match.h"

namespace shardscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<AlignedPair> aligned(std::string_view a, std::string_view b) {
  return align(a.size(), b.size(), [&](std::size_t i, std::size_t j) { return a[i] == b[j]; });
}

std::string common(std::string_view a, std::string_view b) {
  std::string text;
  for (const AlignedPair& pair : aligned(a, b)) {
    EXPECT_EQ(a[pair.first], b[pair.second]);
    text += a[pair.first];
  }
  return text;
}

TEST(Alignment, OfEqualSequencesIsAllOfThem) {
  EXPECT_THAT(aligned("abc", "abc"),
              ElementsAre(AlignedPair{0, 0}, AlignedPair{1, 1}, AlignedPair{2, 2}));
}

TEST(Alignment, OfNothingIsNothing) {
  EXPECT_THAT(aligned("", "abc"), IsEmpty());
  EXPECT_THAT(aligned("abc", ""), IsEmpty());
  EXPECT_THAT(aligned("abc", "xyz"), IsEmpty());
}

TEST(Alignment, IsALongestCommonSubsequence) {
  EXPECT_EQ(common("abcd", "acxd"), "acd");
  EXPECT_EQ(common("xxabc", "abcyy"), "abc");
  EXPECT_EQ(common("abcabba", "cbabac").size(), 4U);  // Myers' own example: 5 differences
}

// 3,000 places differ, more than are searched at once: what is found is still common to both.
TEST(Alignment, OfVeryDifferentSequencesEndsAndFindsWhatIsBehind) {
  const std::string tail(500, 'z');
  EXPECT_EQ(common(std::string(1500, 'a') + tail, std::string(1500, 'b') + tail), tail);
}

// Letters agree, those of one case are alike: b and B agree in nothing but stand between pairs.
TEST(SequenceMatch, PairsByKindWhatIsLeftBetweenSurerPairs) {
  const std::string_view predicted = "aXcd", profiled = "aYcYd";
  const auto is_upper = [](char c) { return c < 'a'; };
  const SequenceMatch match = match_sequences(
      {.predicted = predicted.size(),
       .profiled = profiled.size(),
       .agrees = [&](std::size_t i, std::size_t j) { return predicted[i] == profiled[j]; },
       .alike = [&](std::size_t i,
                    std::size_t j) { return is_upper(predicted[i]) == is_upper(profiled[j]); },
       .says_all = [&](std::size_t i, std::size_t) { return predicted[i] != 'd'; }});
  EXPECT_THAT(match.pairs, ElementsAre(SequenceMatch::Pair{{0, 0}, Confidence::all_fields},
                                       SequenceMatch::Pair{{1, 1}, Confidence::order_and_kind},
                                       SequenceMatch::Pair{{2, 2}, Confidence::all_fields},
                                       SequenceMatch::Pair{{3, 4}, Confidence::known_fields}));
  EXPECT_THAT(left_over(match).predicted, IsEmpty());
  EXPECT_THAT(left_over(match).profiled, ElementsAre(3U));
  EXPECT_EQ(match.counts.matched(), 4);
  EXPECT_FALSE(match.counts.complete());
}

}  // namespace
}  // namespace shardscope
