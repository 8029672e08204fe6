#include "backend/watch/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Reports = std::vector<std::optional<RankStatement>>;

/// A rank that has made `calls` calls of the group of all four, and waits in the last one.
RankStatement waits(std::uint64_t calls, const std::string& operation = "all_gather") {
  RankStatement report;
  report.groups = {{.name = "0-3", .ranks = {0, 1, 2, 3}, .calls = calls}};
  report.doing = FlightEntry{};
  report.doing->operation = operation;
  report.doing->group = "0-3";
  report.doing->call = calls;
  report.doing->bytes = {64};
  return report;
}
/// The same, done with the last one.
RankStatement computes(std::uint64_t calls) {
  RankStatement report = waits(calls);
  report.last = report.doing;
  report.doing.reset();
  return report;
}

Verdict late(const Reports& reports, int noticed_by = 0) {
  return judge({TroubleKind::late, noticed_by, ""}, reports, seconds(5));
}

TEST(Judge, TheRankThatHasNotMadeTheCallIsLate) {
  const Verdict verdict = late({waits(7), waits(7), computes(6), waits(7)});
  EXPECT_THAT(verdict.late, ElementsAre(2));
  EXPECT_EQ(verdict.cause, "rank 2 did not come within 5 s");
  EXPECT_EQ(verdict.doing,
            "ranks 0,1,3 wait in all_gather of 64 B, call 7 of ranks 0-3; rank 2 is in no "
            "collective, after all_gather of 64 B, call 6 of ranks 0-3");
}

TEST(Judge, OneThatWaitsForSomebodyElseIsNotToBlame) {
  // 0 waits for 1 in call 7, 1 still waits for 3 in call 6.
  const Verdict verdict = late({waits(7), waits(6), waits(7), computes(5)});
  EXPECT_THAT(verdict.late, ElementsAre(3));
}

TEST(Judge, FollowsAReceiveToItsSender) {
  RankStatement receiver = waits(6, "receive");
  receiver.doing->peer = 1;
  const Verdict verdict = late({waits(7), waits(7), receiver, waits(7)});
  // 0 waits for 2, 2 for what 1 is to send, and 1 waits in the call that 2 has not made: a circle.
  EXPECT_THAT(verdict.late, IsEmpty());
  const Verdict other = late({waits(7), computes(7), receiver, waits(7)});
  EXPECT_THAT(other.late, ElementsAre(1));
}

TEST(Judge, SilenceIsBlamedFirst) {
  const Verdict verdict = late({waits(7), std::nullopt, computes(6), std::nullopt});
  EXPECT_THAT(verdict.late, ElementsAre(1, 3));
  EXPECT_THAT(verdict.silent, ElementsAre(1, 3));
  EXPECT_EQ(verdict.answered, 2);
  EXPECT_THAT(verdict.doing, HasSubstr("ranks 1,3 give no answer"));
}

TEST(Judge, AllInOneCallMeansThatNothingMoves) {
  const Verdict verdict = late({waits(7), waits(7), waits(7), waits(7)});
  EXPECT_THAT(verdict.late, IsEmpty());
  EXPECT_EQ(verdict.cause, "all ranks entered the call, but no data moved within 5 s");
}

TEST(Judge, DifferentCallsAreToldApart) {
  const Verdict verdict = late({waits(7), waits(7), waits(7, "all_reduce"), waits(7)});
  EXPECT_EQ(verdict.cause, "ranks 0 and 2 make different calls");
}

TEST(Judge, ALostRankIsTheCauseWhoeverIsSilent) {
  const Verdict verdict = judge({TroubleKind::lost, 3, "was killed by signal 9 (Killed)"},
                                {waits(7), waits(7), computes(6), std::nullopt}, seconds(5));
  EXPECT_THAT(verdict.late, ElementsAre(3));
  EXPECT_EQ(verdict.cause, "rank 3 was lost: was killed by signal 9 (Killed)");
}

TEST(Judge, WhoCouldNotBeAskedIsNotCalledSilent) {
  const Verdict verdict = judge({TroubleKind::cut_off, 0, "the store does not answer"},
                                {std::nullopt, std::nullopt, waits(7), std::nullopt}, seconds(5));
  EXPECT_THAT(verdict.silent, IsEmpty());
  EXPECT_EQ(verdict.doing, "rank 2 waits in all_gather of 64 B, call 7 of ranks 0-3");
}

TEST(Judge, SaysWhoHasLeft) {
  RankStatement gone;
  gone.has_left = true;
  const Verdict verdict = late({waits(7), waits(7), waits(7), gone});
  EXPECT_THAT(verdict.late, ElementsAre(3));
  EXPECT_THAT(verdict.doing, HasSubstr("rank 3 has left the job"));
}

TEST(Trouble, IsReadBack) {
  const auto trouble = parse_trouble(to_text({TroubleKind::failed, 12, "disk full; free some"}));
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->kind, TroubleKind::failed);
  EXPECT_EQ(trouble->rank, 12);
  EXPECT_EQ(trouble->text, "disk full; free some");
}

TEST(Trouble, IsNotReadFromOtherText) {
  for (const char* text : {"", "late", "late 1", "tardy 1 text", "late x text", "late  text"})
    EXPECT_FALSE(parse_trouble(text)) << text;
}

}  // namespace
}  // namespace shardscope
