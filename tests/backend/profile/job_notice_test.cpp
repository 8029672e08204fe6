#include "backend/profile/job_notice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

JobNotice notice_in(const TemporaryFolder& folder) {
  return read_notice(folder.path()).value_or(JobNotice{});
}

TEST(JobNotice, SaysWhyAWindowHasNoResults) {
  const TemporaryFolder folder;
  JobNoticeFile file(folder.path(), own_notice(100));
  file.open("me", {3, 4});
  file.close({3, 4});
  file.fail({3, 4}, "\"profiles\": is no folder\n");
  const WindowAnswer expected{.request = "me",
                              .state = WindowState::failed,
                              .steps = {3, 4},
                              .reason = "\"profiles\": is no folder\n"};
  const JobNotice read = notice_in(folder);
  ASSERT_NE(read.answer_to("me"), nullptr);
  EXPECT_EQ(*read.answer_to("me"), expected);
}

TEST(JobNotice, ThatCannotBeWrittenEndsNothingAndIsToldOnce) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "running.json" / "in_the_way");
  ::testing::internal::CaptureStderr();
  JobNoticeFile file(folder.path(), own_notice(100));
  file.open("me", {3, 4});
  file.refuse("another", "no step is left");
  const std::string told = ::testing::internal::GetCapturedStderr();
  const std::size_t first = told.find("whoever asks for windows is not answered");
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find("is not answered", first + 30), std::string::npos) << told;
  ASSERT_NE(file.notice().answer_to("another"), nullptr);
}

TEST(JobNotice, AnAnswerIsNotOverwrittenByTheNext) {
  const TemporaryFolder folder;
  JobNoticeFile file(folder.path(), own_notice(100));
  file.open("first", {3, 4});
  for (int i = 0; i < 15; ++i) file.refuse("other " + std::to_string(i), "busy");
  const JobNotice read = notice_in(folder);
  ASSERT_NE(read.answer_to("first"), nullptr) << "16 are kept";
  EXPECT_EQ(read.answer_to("first")->steps, (StepRange{3, 4}));
  EXPECT_NE(read.answer_to("other 0"), nullptr);
  file.refuse("one more", "busy");
  EXPECT_EQ(notice_in(folder).answer_to("first"), nullptr);
}

TEST(JobNotice, AWindowThatEndsEarlyHasTheStepsItHad) {
  const TemporaryFolder folder;
  JobNoticeFile file(folder.path(), own_notice(100));
  file.open("me", {3, 9});
  file.close({3, 5});
  EXPECT_EQ(notice_in(folder).answer_to("me")->state, WindowState::closed);
  EXPECT_EQ(notice_in(folder).answer_to("me")->steps, (StepRange{3, 5}));
}

TEST(JobNotice, StaysAfterTheEndWhereSomebodyMayStillReadIt) {
  const TemporaryFolder folder;
  {
    JobNoticeFile file(folder.path(), own_notice(100));
    file.open("me", {3, 9});
  }
  const JobNotice read = notice_in(folder);
  EXPECT_EQ(read.state, JobState::ended);
  ASSERT_NE(read.answer_to("me"), nullptr);
  EXPECT_EQ(read.answer_to("me")->state, WindowState::failed) << "its steps will not come";
}

TEST(JobNotice, IsGoneWithAJobThatNobodyAsked) {
  const TemporaryFolder folder;
  { JobNoticeFile file(folder.path(), own_notice(100)); }
  EXPECT_FALSE(read_notice(folder.path()));
}

TEST(StartingNotice, IsGoneWhereTheJobDoesNotStart) {
  const TemporaryFolder folder;
  {
    const StartingNotice starting(folder.path(), 100);
    EXPECT_EQ(notice_in(folder).state, JobState::starting);
  }
  EXPECT_FALSE(read_notice(folder.path()));
}

TEST(StartingNotice, LeavesWhatTheJobSaid) {
  const TemporaryFolder folder;
  std::optional<StartingNotice> starting;
  starting.emplace(folder.path(), 100);
  const JobNoticeFile file(folder.path(), own_notice(100));
  starting.reset();
  EXPECT_EQ(notice_in(folder).state, JobState::running);
}

}  // namespace
}  // namespace shardscope
