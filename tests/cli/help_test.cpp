// What the program says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class EveryVerb : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryVerb, HelpListsExamples) {
  const Workplace workplace;
  const Outcome outcome = workplace.run(GetParam() + " --help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("Examples:\n  shardscope " + GetParam()));
  EXPECT_THAT(outcome.output, HasSubstr("--json"));
  EXPECT_EQ(outcome.errors, "");
}

TEST_P(EveryVerb, RefusesAnUnknownOptionInOneLine) {
  const Workplace workplace;
  const Outcome outcome = workplace.run(GetParam() + " --jsno");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.errors,
            "shardscope " + GetParam() + ": --jsno: unknown option; did you mean --json?\n");
  EXPECT_EQ(outcome.output, "");
}

TEST(Program, PlanSaysWhatWritesATableAndAPage) {
  EXPECT_EQ(Workplace().run("plan --csv").errors,
            "shardscope plan: --csv: plan has no such option; -o FOLDER writes FOLDER/plan.csv\n");
  EXPECT_EQ(
      Workplace().run("plan --html").errors,
      "shardscope plan: --html: plan has no such option; -o FOLDER writes FOLDER/plan.html\n");
}

INSTANTIATE_TEST_SUITE_P(Verbs, EveryVerb,
                         ::testing::Values("model", "lint", "convert", "schedule", "simulate",
                                           "calibrate", "train", "compare", "data", "validate",
                                           "plan", "profile", "doctor", "init"));

TEST(Program, HelpOfSimulateNamesTheValuesOfItsOptions) {
  const Outcome outcome = Workplace().run("simulate --help");
  ASSERT_EQ(outcome.code, 0);
  for (const char* value :
       {"every:K", "selective", "first:N", "hybrid_shard_zero2", "fp16_mixed", " adam,"}) {
    EXPECT_THAT(outcome.output, HasSubstr(value));
  }
}

TEST(Program, HelpListsEveryVerb) {
  const Workplace workplace;
  const Outcome outcome = workplace.run("--help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* verb : {"model", "schedule", "simulate", "calibrate", "train", "compare", "data",
                           "validate", "plan", "profile", "gui"}) {
    EXPECT_THAT(outcome.output, HasSubstr(std::string("\n  ") + verb + " "));
  }
}

TEST(Program, VersionIsOneLine) {
  const Workplace workplace;
  const Outcome outcome = workplace.run("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, StartsWith("shardscope 0."));
  EXPECT_EQ(lines_of(outcome.output), 1u);
}

TEST(Program, NothingIsBadUsage) { EXPECT_EQ(Workplace().run("").code, 2); }

TEST(Program, GuessesAMistypedVerb) {
  const Outcome outcome = Workplace().run("simulat");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.errors, "shardscope: simulat: unknown verb; did you mean simulate?\n");
}

TEST(Program, SaysThatALaterOptionIsNotThereYet) {
  for (const char* option :
       {"--accelerate a.yaml", "--deepspeed d.json", "--pytorch 2.9", "--attention flash"}) {
    const Outcome outcome = Workplace().run(std::string("train ") + option);
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_THAT(outcome.errors, HasSubstr("at this commit")) << option;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << option;
  }
}

TEST(Program, SaysWhichValueOfAnOptionIsSupported) {
  const Outcome outcome = Workplace().run("train --dropout on");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.errors,
            "shardscope train: --dropout: \"on\" is not supported at this commit; off is\n");
}

TEST(Program, AClosedPipeIsHarmless) {
  const Workplace workplace;
  workplace.write("config.json", tiny_config());
  const Outcome outcome = workplace.run("schedule --quiet --model config.json --seq 8 | head -n 1");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.errors, "");
}

TEST(Program, AFullDiskUnderStandardOutputIsExitThree) {
  const Workplace workplace;
  workplace.write("config.json", tiny_config());
  const Outcome outcome = workplace.run("model --quiet config.json --json >/dev/full");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.errors, HasSubstr("standard output: No space left on device"));
}

TEST(Program, ColourOnlyWhereAskedFor) {
  const Workplace workplace;
  workplace.write("config.json", tiny_config());
  EXPECT_EQ(workplace.run("model config.json").output.find('\033'), std::string::npos);
  EXPECT_NE(workplace.run("model config.json --color always").output.find('\033'),
            std::string::npos);
}

}  // namespace
}  // namespace shardscope::testing
