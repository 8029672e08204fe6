#include "backend/profile/window_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/format/atomic_file.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(WindowResults, OfOneRankAreThere) {
  const TemporaryFolder folder;
  const Environment alone;
  WindowResults results({.run_folder = folder.path(), .environment = alone});
  results.start({3, 4}, Trace{});
  const auto outcomes = results.take(true);
  ASSERT_THAT(outcomes, SizeIs(1));
  EXPECT_EQ(outcomes[0].steps, (StepRange{3, 4}));
  EXPECT_EQ(outcomes[0].failed, "");
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "profiles" / "3-4" / "comparison.json"));
}

TEST(WindowResults, SayWhyTheyAreNotThere) {
  const TemporaryFolder folder;
  write_atomically(folder.path() / "profiles", "in the way");
  const Environment alone;
  WindowResults results({.run_folder = folder.path(), .environment = alone});
  results.start({3, 4}, Trace{});
  const auto outcomes = results.take(true);
  ASSERT_THAT(outcomes, SizeIs(1));
  EXPECT_THAT(outcomes[0].failed, HasSubstr("profiles"));
  EXPECT_THAT(outcomes[0].text, HasSubstr("rank 0: the profile of steps 3-4 is not complete"));
}

TEST(WindowResults, OfAWindowThatWasSkippedComeBehindTheOneInItsWay) {
  const TemporaryFolder folder;
  const Environment alone;
  WindowResults results({.run_folder = folder.path(), .environment = alone});
  EXPECT_TRUE(results.is_free({}));
  results.start({3, 4}, Trace{});
  results.skip({5, 5});
  const auto outcomes = results.take(true);
  ASSERT_THAT(outcomes, SizeIs(2));
  EXPECT_EQ(outcomes[0].failed, "");
  EXPECT_EQ(outcomes[1].steps, (StepRange{5, 5}));
  EXPECT_THAT(outcomes[1].text, HasSubstr("step 5 left out"));
  EXPECT_TRUE(results.is_free({}));
  EXPECT_THAT(results.take(true), SizeIs(0)) << "each is told once";
}

}  // namespace
}  // namespace shardscope
