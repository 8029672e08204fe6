#include "traces/import/matched_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ImportedCollective call(OperationKind kind, std::int64_t elements, std::int64_t start,
                        std::int64_t duration) {
  return {.name = "kernel",
          .kind = kind,
          .group = "shard",
          .elements_in = elements,
          .elements_out = elements,
          .start = {start},
          .duration = {duration}};
}

/// All-reduces of these elements that end at 1000, 2000, ...; `begins` before each end.
RankCalls rank_of(std::int64_t rank, const std::vector<std::int64_t>& elements,
                  const std::vector<std::int64_t>& lengths, std::int64_t clock = 0) {
  RankCalls calls{.rank = rank, .collectives = {}};
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::int64_t end = 1000 * static_cast<std::int64_t>(i + 1) + clock;
    calls.collectives.push_back(
        call(OperationKind::all_reduce, elements[i], end - lengths[i], lengths[i]));
  }
  return calls;
}

TEST(MatchedCollectives, SayWhoCameLastAndWhoWaited) {
  const auto matched =
      matched_collectives({rank_of(0, {8, 9}, {300, 40}), rank_of(1, {8, 9}, {100, 90})});
  ASSERT_EQ(matched.collectives.size(), 2u);
  EXPECT_EQ(matched.collectives[0].last_rank, 1);
  EXPECT_EQ(matched.collectives[0].start_skew.ns, 200);
  EXPECT_EQ(matched.collectives[0].parts[0].wait.ns, 200);
  EXPECT_EQ(matched.collectives[0].parts[1].wait.ns, 0);
  EXPECT_EQ(matched.collectives[1].last_rank, 0);
  EXPECT_EQ(matched.ranks[0].waited.ns, 200);
  EXPECT_EQ(matched.ranks[0].let_others_wait.ns, 50);
  EXPECT_EQ(matched.ranks[1].let_others_wait.ns, 200);
  EXPECT_THAT(matched.not_matched, ElementsAre());
}

TEST(MatchedCollectives, SetClocksByTheEndsThatRanksShare) {
  const auto matched = matched_collectives(
      {rank_of(0, {8, 9}, {300, 40}), rank_of(1, {8, 9}, {100, 90}, 5'000'000)});
  EXPECT_EQ(matched.ranks[1].clock_offset.ns, 5'000'000);
  EXPECT_EQ(matched.collectives[0].start_skew.ns, 200);
}

TEST(MatchedCollectives, LeaveClocksAloneWhereCallsReturnBeforeTheirTransfer) {
  RankCalls late = rank_of(1, {8, 9}, {100, 90}, 700);
  late.are_transfers = false;
  const auto matched = matched_collectives({rank_of(0, {8, 9}, {300, 40}), late});
  EXPECT_EQ(matched.ranks[1].clock_offset.ns, 0);
  EXPECT_EQ(matched.collectives[0].start_skew.ns, 900);  // 900 + 700 less 700
}

TEST(MatchedCollectives, AlignProfilesThatBeginACallApart) {
  const auto matched = matched_collectives(
      {rank_of(0, {7, 8, 9}, {10, 10, 10}), rank_of(1, {8, 9}, {10, 10}, 1000)});
  ASSERT_EQ(matched.collectives.size(), 2u);
  EXPECT_EQ(matched.collectives[0].what.elements_in, 8);
  EXPECT_EQ(matched.collectives[0].start_skew.ns, 0);
  EXPECT_THAT(matched.not_matched,
              ElementsAre("1 calls of group shard: not all its ranks made them"));
}

TEST(MatchedCollectives, GoBySequenceNumbersWhereTheTracesHaveThem) {
  RankCalls first = rank_of(0, {8, 8}, {10, 10}), second = rank_of(1, {8, 8}, {10, 10});
  for (std::size_t i = 0; i < 2; ++i) {
    first.collectives[i].sequence = 4 + static_cast<std::int64_t>(i);
    second.collectives[i].sequence = 5 + static_cast<std::int64_t>(i);
  }
  const auto matched = matched_collectives({first, second});
  ASSERT_EQ(matched.collectives.size(), 1u);  // 5; 4 and 6 are of one rank each
  EXPECT_EQ(matched.collectives[0].what.sequence, 5);
}

TEST(MatchedCollectives, SayWhatDiffersInSize) {
  const auto matched = matched_collectives(
      {rank_of(0, {8, 9, 8}, {10, 10, 10}), rank_of(1, {8, 7, 8}, {10, 10, 10})});
  EXPECT_EQ(matched.collectives.size(), 2u);
  EXPECT_THAT(matched.not_matched, ElementsAre(HasSubstr("differ in kind, size or type")));
}

TEST(MatchedCollectives, KeepGroupsOfOneNameAndOtherRanksApart) {
  RankCalls other = rank_of(2, {8}, {10});
  other.collectives[0].group_ranks = "[2, 3]";
  const auto matched = matched_collectives({rank_of(0, {8}, {10}), rank_of(1, {8}, {10}), other});
  ASSERT_EQ(matched.collectives.size(), 1u);
  EXPECT_EQ(matched.collectives[0].parts.size(), 2u);
  EXPECT_THAT(matched.not_matched, ElementsAre("1 calls of group shard: only rank 2 is here"));
}

TEST(MatchedCollectives, AreNoneWhereFilesNameARankTwice) {
  const auto matched = matched_collectives({rank_of(0, {8}, {10}), rank_of(0, {8}, {10})});
  EXPECT_TRUE(matched.collectives.empty());
  EXPECT_EQ(matched.not_matched.size(), 1u);
}

}  // namespace
}  // namespace shardscope
