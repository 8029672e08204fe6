// shardscope compare --trace: our own recordings of a small GPT-2 beside what is predicted for
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/format/atomic_file.h"
#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string recordings = SOURCE_ROOT "/tests/data/kineto/";

class TracedRunTest : public ::testing::Test {
 protected:
  Json compare(const std::string& arguments, int code = 0) const {
    const Outcome outcome = workplace_.run("compare --json --quiet " + arguments);
    EXPECT_EQ(outcome.code, code) << outcome.errors;
    return Json::parse(outcome.output);
  }
  /// settings.json of the FSDP2 run, changed.
  std::string changed_settings(const std::string& what, const std::string& by) const {
    const std::string text = read_whole(recordings + "fsdp2_gpt2/settings.json");
    workplace_.write("settings.json", replaced(text, what, by));
    return "--predicted settings.json --trace " + recordings + "fsdp2_gpt2";
  }
  Workplace workplace_;
};

// Each was recorded for one step, and finds its settings.json by itself.
TEST_F(TracedRunTest, EveryStepUnitAndCollectiveHasItsCounterpart) {
  for (const char* runtime : {"fsdp1", "fsdp2", "ddp"}) {
    const Json json = compare("--trace " + recordings + runtime + "_gpt2");
    const Json& match = json["match"];
    EXPECT_EQ(json["schema"], "shardscope.compare/1");
    EXPECT_EQ(match["complete"], true) << runtime;
    EXPECT_EQ(match["steps"]["matched"], 1) << runtime;
    EXPECT_EQ(match["steps"]["by"], "profiler_steps") << runtime;
    for (const char* what : {"units", "collectives"}) {
      EXPECT_EQ(match[what]["predicted"], match[what]["profiled"]) << runtime << what;
      EXPECT_EQ(match[what]["predicted"], match[what]["matched"]) << runtime << what;
      EXPECT_THAT(match[what]["unmatched"], IsEmpty()) << runtime << what;
    }
    EXPECT_EQ(json["ranks"][0]["runtime"], runtime);
    EXPECT_EQ(json["ranks"].size(), 1U);
    EXPECT_EQ(match["compute"]["by_confidence"]["order_and_kind"], 0) << runtime;
  }
}

// A settings.json of a model of another width: the first collective says so.
TEST_F(TracedRunTest, AnotherModelIsTold) {
  const std::string arguments = changed_settings("\"n_embd\": 32", "\"n_embd\": 48");
  const Json match = compare(arguments, 1)["match"];
  EXPECT_EQ(match["complete"], false);
  EXPECT_EQ(match["confidence"], "incomplete");
  EXPECT_FALSE(match["collectives"]["unmatched"].empty());
  const Outcome outcome = workplace_.run("compare --tolerance 1000 " + arguments);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("of other sizes: check the model's config"));
}

TEST_F(TracedRunTest, ACompleteMatchWithinToleranceIsDone) {
  const Outcome outcome =
      workplace_.run("compare --tolerance 1000 -o figures --trace " + recordings + "fsdp2_gpt2");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_TRUE(workplace_.has("figures/streams.svg"));
  for (const char* file : {"summary.json", "trace.json.gz", "buffers.json.gz"})
    EXPECT_TRUE(workplace_.has(std::string("figures/predicted/") + file)) << file;
  EXPECT_THAT(outcome.errors, HasSubstr("of 2 ranks, 1 have no trace"));
  EXPECT_EQ(
      workplace_.run("compare --tolerance 0.000001 --trace " + recordings + "fsdp2_gpt2").code, 1);
}

// What DDP foretells for the same model has a root, too: it is not FSDP2's.
TEST_F(TracedRunTest, AnotherRuntimeIsTold) {
  const Json match = compare(
      "--predicted " + recordings + "ddp_gpt2/settings.json --trace " + recordings + "fsdp2_gpt2",
      1)["match"];
  EXPECT_EQ(match["runtime"]["unmatched"][0]["predicted"], "ddp");
  EXPECT_EQ(match["runtime"]["unmatched"][0]["profiled"], "fsdp2");
  EXPECT_EQ(match["units"]["matched"], 0);
}

TEST_F(TracedRunTest, ATraceOfNothingHasNoStep) {
  workplace_.write("empty.pt.trace.json", R"({"schemaVersion": 1, "traceEvents": []})");
  const std::string arguments =
      "--predicted " + recordings + "fsdp2_gpt2/settings.json --trace empty.pt.trace.json";
  const Json steps = compare(arguments, 1)["match"]["steps"];
  EXPECT_EQ(steps["predicted"], 1);
  EXPECT_EQ(steps["profiled"], 0);
  EXPECT_EQ(steps["matched"], 0);
  const Outcome outcome = workplace_.run("compare --tolerance 1000 " + arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--tolerance: nothing has both"));
}

// The recordings are of a CPU: red numbers beside times of a GPU would say nothing.
TEST_F(TracedRunTest, TimesOfAGpuAreNotHeldAgainstACpus) {
  const std::string arguments = "--cluster h100_sxm --trace " + recordings + "fsdp2_gpt2";
  EXPECT_EQ(compare(arguments)["times_comparable"], false);
  const Outcome outcome = workplace_.run("compare --color always " + arguments);
  EXPECT_THAT(outcome.output, HasSubstr("times of h100_sxm beside those of a CPU: not comparable"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("\x1b[31m")));
  // Memory is within half, times are not.
  EXPECT_EQ(workplace_.run("compare --tolerance 0.5 " + arguments).code, 0);
}

TEST_F(TracedRunTest, BadInputIsToldInALine) {
  const std::pair<std::string, const char*> cases[] = {
      {"--predicted nowhere --trace " + recordings + "fsdp2_gpt2", "nowhere is not there"},
      {"--predicted nowhere", "give --trace FILE..."},
      {"runs --trace " + recordings + "fsdp2_gpt2", "--predicted"}};
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = workplace_.run("compare " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << arguments;
  }
}

TEST_F(TracedRunTest, SettingsThatCannotBeAreToldWithTheirLine) {
  const std::pair<const char*, const char*> changes[] = {
      {"\"strategy\": \"fsdp2\"", "\"strategy\": \"zero\""},
      {"\"seq\": 8,\n", "\"seq\": -8,\n"},
      {"\"world\": 2,\n", "\"world\": 0,\n"},
      {"\"attention\": \"sdpa\"", "\"attention\": \"fast\""}};
  for (const auto& [what, by] : changes) {
    const Outcome outcome = workplace_.run("compare " + changed_settings(what, by));
    EXPECT_EQ(outcome.code, 2) << by;
    EXPECT_THAT(outcome.errors, HasSubstr("settings.json:")) << by;
  }
}

}  // namespace
}  // namespace shardscope::testing
