// Where a job runs: what is taken when nobody says, and what is said where it cannot.
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
using ::testing::MatchesRegex;
using ::testing::Not;

class Devices : public ::testing::Test {
 protected:
  Devices() {
    // So that a machine with a GPU answers as one without.
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    set_up_tiny_job(workplace_);
  }
  Json summary(const std::string& run) const {
    return Json::parse(workplace_.read(run + "/summary.json"));
  }
  Workplace workplace_;
};

TEST_F(Devices, WithoutAGpuAJobRunsOnTheCpuAndSaysWhy) {
  const Outcome outcome = workplace_.run("train job.json -o run");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("device cpu, because "));
  EXPECT_THAT(summary("run")["assumed"],
              Contains(MatchesRegex("device cpu, because .* \\(--device\\)")));
  EXPECT_EQ(Json::parse(workplace_.read("run/job.json"))["device"], "cpu");
}

TEST_F(Devices, TheUsualPrecisionOfTheCpuIsFloat32) {
  ASSERT_EQ(workplace_.run("train job.json -o run").code, 0);
  EXPECT_EQ(summary("run")["precision"], "fp32");
  EXPECT_THAT(summary("run")["assumed"], Contains("precision fp32, usual on cpu (--precision)"));
}

TEST_F(Devices, WhatIsGivenIsNotAssumed) {
  ASSERT_EQ(workplace_.run("train job.json -o run --device cpu --precision bf16_mixed").code, 0);
  EXPECT_EQ(summary("run")["precision"], "bf16_mixed");
  EXPECT_THAT(summary("run")["assumed"], Not(Contains(HasSubstr("--device"))));
  EXPECT_THAT(summary("run")["assumed"], Not(Contains(HasSubstr("--precision"))));
}

TEST_F(Devices, AskedForWithoutAGpuIsOneLineAndExitThree) {
  for (const char* verb : {"train job.json --ranks 1 -o run", "calibrate"}) {
    const Outcome outcome = workplace_.run(std::string(verb) + " --device cuda");
    EXPECT_EQ(outcome.code, 3) << verb;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("--device cuda: "));
    EXPECT_FALSE(workplace_.has("run"));
  }
}

TEST_F(Devices, WhatDoesNotFitIsToldWithWhatWould) {
  const Outcome outcome = workplace_.run("train job.json --ranks 1 --batch 60000000 --seq 32");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("an arena of "));
  EXPECT_THAT(outcome.errors, HasSubstr("; --batch "));
  EXPECT_THAT(outcome.errors, HasSubstr("would fit"));
}

TEST_F(Devices, ALossThatIsNoNumberIsExitFiveWithStepAndRank) {
  workplace_.write("wild.json",
                   replaced(tiny_job(), "\"steps\": 3", "\"steps\": 5, \"lr\": {\"peak\": 1e30}"));
  const Outcome outcome = workplace_.run("train wild.json -o run");
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.errors, HasSubstr("step 2: the loss is nan"));
  EXPECT_THAT(outcome.errors, HasSubstr("rank "));
  // What the good step left, and nothing that says the run came to an end.
  EXPECT_EQ(lines_of(workplace_.read("run/metrics.jsonl")), 1u);
  for (const char* name : {"run/summary.json", "run/model", "run/trace.0.json.gz"})
    EXPECT_FALSE(workplace_.has(name)) << name;
}

}  // namespace
}  // namespace shardscope::testing
