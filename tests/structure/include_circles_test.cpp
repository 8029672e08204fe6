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

TEST(IncludeCircles, FindsRoomsInACircleThroughDifferentFiles) {
  EXPECT_THAT(
      room_circles({parse_source("core/a.cpp", "#include \"sim/b.h\"\n"),
                    parse_source("sim/b.h", ""), parse_source("sim/c.h", "#include \"core/d.h\"\n"),
                    parse_source("core/d.h", "")}),
      ElementsAre("core -> sim -> core"));
}

}  // namespace
}  // namespace shardscope::structure
