#include "tests/structure/unreached.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::structure {
namespace {

using testing::ElementsAre;

TEST(Unreached, IsWhatOnlyTestsOrUnreachedFilesInclude) {
  EXPECT_THAT(
      unreached_headers({parse_source("cli/main.cpp", "#include \"core/used.h\"\n"),
                         parse_source("core/used.h", ""),
                         parse_source("core/used.cpp", "#include \"core/detail.h\"\n"),
                         parse_source("core/detail.h", ""),
                         parse_source("core/tested.h", "#include \"core/behind.h\"\n"),
                         parse_source("core/tested.cpp", "#include \"core/tested.h\"\n"),
                         parse_source("core/behind.h", ""),
                         parse_source("tests/core/a_test.cpp", "#include \"core/tested.h\"\n")}),
      ElementsAre("core/behind.h", "core/tested.h"));
}

TEST(Unreached, IsNotWhatASourceWithoutAHeaderIncludes) {
  EXPECT_THAT(
      unreached_headers({parse_source("core/model/llama.cpp", "#include \"core/model/rope.h\"\n"),
                         parse_source("core/model/rope.h", "")}),
      testing::IsEmpty());
}

}  // namespace
}  // namespace shardscope::structure
