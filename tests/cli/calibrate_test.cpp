// What a calibration leaves, seen from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class Calibrating : public ::testing::Test {
 protected:
  Calibrating() { set_up_tiny_job(workplace_); }
  Json calibrate(const std::string& arguments) const {
    const Outcome outcome = workplace_.run(
        "calibrate --job job.json --model-only --device cpu --json -o machine.json " + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return Json::parse(outcome.output);
  }
  Workplace workplace_;
};

TEST_F(Calibrating, OfSeveralRanksDrawsTheirCollectivesBesideTheProfile) {
  const Json json = calibrate("--ranks 2");
  EXPECT_EQ(json["figure"], "machine.collectives.svg");
  EXPECT_TRUE(json["context_memory_bytes"].is_null());
  const std::string picture = workplace_.read("machine.collectives.svg");
  for (const char* text : {">all_gather<", ">reduce_scatter<", ">all_reduce<", ">2 ranks<"})
    EXPECT_NE(picture.find(text), std::string::npos) << text;
}

TEST_F(Calibrating, OfSeveralRanksSaysWhatSomeOfThemTake) {
  calibrate("--ranks 3");
  const Json samples = Json::parse(workplace_.read("machine.json"))["core_sharing"]["samples"];
  ASSERT_EQ(samples.size(), 3u);
  for (int ranks = 1; ranks <= 3; ++ranks) {
    EXPECT_EQ(samples[ranks - 1]["ranks"], ranks);
    EXPECT_GT(samples[ranks - 1]["time_share"], 0);
  }
}

TEST_F(Calibrating, OfOneRankDrawsNothing) {
  EXPECT_TRUE(calibrate("--ranks 1")["figure"].is_null());
  EXPECT_FALSE(workplace_.has("machine.collectives.svg"));
  EXPECT_FALSE(Json::parse(workplace_.read("machine.json")).contains("core_sharing"));
}

TEST_F(Calibrating, APlaceThatCannotBeWrittenIsRefusedBeforeItMeasures) {
  struct Place {
    const char* path;
    const char* named;
  };
  for (const Place& place : {Place{"text.txt/machine.json", "text.txt: cannot be created"},
                             Place{"model", "model: cannot be written"},
                             Place{"/proc/no_folder/machine.json", "/proc/no_folder"}}) {
    const Outcome outcome = workplace_.run(
        "calibrate --job job.json --model-only --device cpu -o " + std::string(place.path));
    EXPECT_EQ(outcome.code, 3) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(place.named));
    EXPECT_THAT(outcome.errors, Not(HasSubstr("measuring")));
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  }
}

}  // namespace
}  // namespace shardscope::testing
