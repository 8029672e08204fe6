// What file managers are told of our files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/format/atomic_file.h"

namespace shardscope::gui {
namespace {

using ::testing::HasSubstr;

std::string packaged(const std::string& name) {
  return read_whole(std::string(SOURCE_ROOT) + "/packaging/" + name);
}

// The default weight is 50: below it, another program's type of that name wins.
TEST(FileTypes, CommonNamesAreClaimedOnlyWhereNobodyElseDoes) {
  const std::string types = packaged("shardscope.xml");
  EXPECT_THAT(types, HasSubstr(R"(<glob pattern="job.json" weight="10"/>)"));
  EXPECT_THAT(types, HasSubstr(R"(<glob pattern="summary.json" weight="10"/>)"));
}

TEST(FileTypes, FilesOfARunAreKnownByTheirContent) {
  EXPECT_THAT(packaged("shardscope.xml"),
              HasSubstr(R"(value="&quot;schema&quot;: &quot;shardscope.")"));
}

// A type of the desktop entry that the package does not define would open nothing.
TEST(FileTypes, EveryTypeOfOursThatTheProgramOpensIsDefined) {
  const std::string entry = packaged("shardscope-gui.desktop"), types = packaged("shardscope.xml");
  for (std::size_t at = entry.find("application/x-"); at != std::string::npos;
       at = entry.find("application/x-", at + 1)) {
    const std::string type = entry.substr(at, entry.find(';', at) - at);
    EXPECT_THAT(types, HasSubstr("<mime-type type=\"" + type + "\">"));
  }
}

}  // namespace
}  // namespace shardscope::gui
