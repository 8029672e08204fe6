#include "backend/profile/windows_done.h"

#include <gtest/gtest.h>

#include <string>

namespace shardscope {
namespace {

TEST(WindowsDone, GoThroughTheStoreAsText) {
  WindowsDone done;
  done.add(5, "");
  done.add(7, "/full/trace.1.json.gz: No space left on device");
  done.add(9, "");
  EXPECT_EQ(windows_done_of(to_text(done)), done);
  EXPECT_EQ(windows_done_of(to_text(WindowsDone{})), WindowsDone{});
  EXPECT_EQ(done.last, 9);
  EXPECT_EQ(done.find(5), nullptr);
  ASSERT_NE(done.find(7), nullptr);
  EXPECT_EQ(done.find(7)->reason, "/full/trace.1.json.gz: No space left on device");
}

TEST(WindowsDone, ReasonsAreOfOneLine) {
  WindowsDone done;
  done.add(3, "first\n4 second");
  EXPECT_EQ(windows_done_of(to_text(done)), done);
  EXPECT_EQ(done.find(3)->reason, "first 4 second");
}

TEST(WindowsDone, StayWithinWhatTheStoreTakes) {
  WindowsDone done;
  for (int window = 1; window <= 1000; ++window) done.add(window, std::string(100000, 'x'));
  EXPECT_LT(to_text(done).size(), 65536u);
  EXPECT_NE(done.find(1000), nullptr) << "the last one is known";
}

}  // namespace
}  // namespace shardscope
