#include "gui/data/fuzzy_match.h"

#include <gtest/gtest.h>

#include <string>

namespace shardscope::gui {
namespace {

TEST(FuzzyMatch, LettersOccurInTheirOrder) {
  EXPECT_TRUE(fuzzy_score("zmi", "Zoom in"));
  EXPECT_FALSE(fuzzy_score("izm", "Zoom in"));
  EXPECT_FALSE(fuzzy_score("zoomx", "Zoom in"));
}

TEST(FuzzyMatch, CaseAndBlanksDoNotCount) {
  EXPECT_EQ(fuzzy_score("ZOOM IN", "Zoom in"), fuzzy_score("zoomin", "Zoom in"));
}

TEST(FuzzyMatch, BeginningsOfWordsWeighMore) {
  EXPECT_GT(fuzzy_score("zi", "Zoom in"), fuzzy_score("zi", "Size it"));
}

TEST(FuzzyMatch, LettersThatFollowOneAnotherWeighMore) {
  EXPECT_GT(fuzzy_score("oom", "a zoom"), fuzzy_score("oom", "a zofom"));
}

// Greedy from the left, "in" would take the i of "nice" and miss that "in" follows.
TEST(FuzzyMatch, TheBestPlaceOfLettersCounts) {
  EXPECT_GT(fuzzy_score("in", "a nice in"), fuzzy_score("in", "a nice xinx"));
}

TEST(FuzzyMatch, OfEqualsTheShorterIsBetter) {
  EXPECT_GT(fuzzy_score("open", "Open"), fuzzy_score("open", "Open again"));
}

TEST(FuzzyMatch, NothingTypedNamesEverything) { EXPECT_TRUE(fuzzy_score("", "Zoom in")); }
TEST(FuzzyMatch, NothingIsNamedByLetters) { EXPECT_FALSE(fuzzy_score("a", "")); }

TEST(FuzzyMatch, LongTextsCostLittle) {
  EXPECT_TRUE(fuzzy_score(std::string(100'000, 'a'), std::string(100'000, 'a')));
}

}  // namespace
}  // namespace shardscope::gui
