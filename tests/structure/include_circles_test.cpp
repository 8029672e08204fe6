#include "tests/structure/include_circles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::structure {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(IncludeCircles, ADiamondIsNone) {
  EXPECT_THAT(
      header_circles({parse_source("core/a.h", "#include \"core/b.h\"\n#include \"core/c.h\"\n"),
                      parse_source("core/b.h", "#include \"core/d.h\"\n"),
                      parse_source("core/c.h", "#include \"core/d.h\"\n"),
                      parse_source("core/d.h", "")}),
      IsEmpty());
}

TEST(IncludeCircles, FindsThreeHeadersInACircleBehindAnEntry) {
  EXPECT_THAT(header_circles({parse_source("core/a.h", "#include \"core/b.h\"\n"),
                              parse_source("core/b.h", "#include \"core/c.h\"\n"),
                              parse_source("core/c.h", "#include \"core/d.h\"\n"),
                              parse_source("core/d.h", "#include \"core/b.h\"\n")}),
              ElementsAre("core/b.h -> core/c.h -> core/d.h -> core/b.h"));
}

TEST(IncludeCircles, FindsFoldersInACircleThroughDifferentFiles) {
  EXPECT_THAT(folder_circles({parse_source("sim/engine/a.cpp", "#include \"sim/cost/b.h\"\n"),
                              parse_source("sim/cost/b.h", ""),
                              parse_source("sim/cost/c.h", "#include \"sim/engine/d.h\"\n"),
                              parse_source("sim/engine/d.h", "")}),
              ElementsAre("sim/cost -> sim/engine -> sim/cost"));
}

TEST(IncludeCircles, AFolderAndOneInsideItAreTwo) {
  EXPECT_THAT(folder_circles({parse_source("sim/a.h", "#include \"sim/cost/b.h\"\n"),
                              parse_source("sim/cost/b.h", "#include \"sim/c.h\"\n"),
                              parse_source("sim/c.h", "")}),
              ElementsAre("sim -> sim/cost -> sim"));
}

}  // namespace
}  // namespace shardscope::structure
