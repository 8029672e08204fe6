// A driver that is too old for the CUDA that this program was built with (old_driver.c).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

class OldDriver : public ::testing::Test {
 protected:
  OldDriver() {
    setenv("LD_LIBRARY_PATH", SHARDSCOPE_OLD_DRIVER, 1);
    set_up_tiny_job(workplace_);
  }
  Workplace workplace_;
};

TEST_F(OldDriver, IsNamedWithBothVersions) {
  const Outcome outcome = workplace_.run("train job.json --ranks 1 --device cuda -o run");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("the NVIDIA driver knows CUDA 12.2, and this program"));
}

TEST_F(OldDriver, LeavesTheJobToTheCpu) {
  ASSERT_EQ(workplace_.run("train job.json -o run").code, 0);
  EXPECT_THAT(Json::parse(workplace_.read("run/summary.json"))["assumed"],
              Contains(HasSubstr("the NVIDIA driver knows CUDA 12.2")));
}
}  // namespace
}  // namespace shardscope::testing
