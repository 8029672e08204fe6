#include "backend/profile/job_notice.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

TEST(JobNotice, SaysWhyAWindowHasNoResults) {
  const TemporaryFolder folder;
  JobNoticeFile file(folder.path(), own_notice(100));
  const WindowNotice window{
      .request = "me", .steps = {3, 4}, .failed = "\"profiles\": is no folder\n"};
  file.show(window);
  EXPECT_EQ(read_notice(folder.path()).value_or(JobNotice{}).window, window);
}

TEST(JobNotice, ThatCannotBeWrittenEndsNothingAndIsToldOnce) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "running.json" / "in_the_way");
  ::testing::internal::CaptureStderr();
  JobNoticeFile file(folder.path(), own_notice(100));
  file.show({.request = "me", .steps = {3, 4}});
  file.refuse("another");
  const std::string told = ::testing::internal::GetCapturedStderr();
  const std::size_t first = told.find("whoever asks for windows is not answered");
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find("is not answered", first + 30), std::string::npos) << told;
  EXPECT_EQ(file.notice().refused, "another");
}

}  // namespace
}  // namespace shardscope
