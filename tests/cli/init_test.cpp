// init: the first command, from options or from questions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/init_questions.h"
#include "core/base/error.h"
#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string gpt2 = std::string(SOURCE_ROOT) + "/examples/models/gpt2";

/// Answers one question after another, then nothing.
struct Person {
  std::deque<std::string> answers;
  std::vector<std::string> complaints;

  FirstCommand talk(const InitAnswers& given, const std::string& profile = "") {
    const Ask ask = [this](const std::string&, const std::string&) -> std::optional<std::string> {
      if (answers.empty()) return std::nullopt;
      std::string answer = answers.front();
      answers.pop_front();
      return answer;
    };
    return first_command(given, profile, ask,
                         [this](const std::string& why) { complaints.push_back(why); });
  }
};

// gpt2 has 1,024 positions; a node of h100_sxm 8 GPUs; 8 sequences of each: 8 * 8 * 1024 tokens.
TEST(Init, AssumesWhatNobodySays) {
  const FirstCommand command = first_command({.model = gpt2}, "", Ask(), [](const std::string&) {});
  EXPECT_THAT(command.words, ElementsAre("shardscope", "plan", "--model", gpt2, "--cluster",
                                         "h100_sxm", "--world", "8", "--seq", "1024",
                                         "--tokens-per-batch", "65536", "-o", "plans/first"));
  EXPECT_THAT(command.assumed, ElementsAre("--cluster h100_sxm", "--world 8", "--seq 1024",
                                           "--tokens-per-batch 65536"));
}

TEST(Init, TakesTheProfileOfThisMachine) {
  const FirstCommand command =
      first_command({.model = gpt2}, "v100_sxm", Ask(), [](const std::string&) {});
  EXPECT_EQ(command.words[5], "v100_sxm");
  EXPECT_EQ(command.words[7], "16");  // of a DGX-2
}

TEST(Init, AsksAgainAfterAnAnswerThatCannotBeRead) {
  Person person{.answers = {gpt2, "h100_smx", "h100_sxm", "no", "16", "", "", "-"},
                .complaints = {}};
  const FirstCommand command = person.talk({});
  EXPECT_THAT(command.words, ElementsAre("shardscope", "plan", "--model", gpt2, "--cluster",
                                         "h100_sxm", "--world", "16", "--seq", "1024",
                                         "--tokens-per-batch", "131072", "-o", "plans/first"));
  EXPECT_THAT(person.complaints, ElementsAre(HasSubstr("did you mean \"h100_sxm\"?"),
                                             HasSubstr("expected a whole number")));
  EXPECT_THAT(command.assumed, IsEmpty());
}

TEST(Init, NamesAFileByItsKeys) {
  const std::string file = std::string(SOURCE_ROOT) + "/examples/configs/zero3_auto.json";
  const FirstCommand command =
      first_command({.model = gpt2, .config = file}, "", Ask(), [](const std::string&) {});
  EXPECT_EQ(command.words[12], "--deepspeed");
  EXPECT_EQ(command.words[13], file);
}

TEST(Init, EndsWhereTheAnswersEnd) {
  Person person{.answers = {gpt2}, .complaints = {}};
  EXPECT_THROW(person.talk({}), Error);
}

TEST(Init, QuotesForAShell) {
  EXPECT_EQ(shell_text({"shardscope", "plan", "--model", "my model/it's"}),
            "shardscope plan --model 'my model/it'\\''s'\n");
}

TEST(Init, WritesAScriptThatPlans) {
  const Workplace place;
  const Outcome outcome =
      place.run("init --model " + gpt2 + " --cluster h100_sxm --yes -o first.sh");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("--tokens-per-batch 65536"));
  EXPECT_THAT(place.read("first.sh"), HasSubstr(outcome.output));
  EXPECT_THAT(outcome.errors, HasSubstr("written to first.sh"));
}

TEST(Init, AsksForTheModelInOneLineWhereNobodyCanBeAsked) {
  const Workplace place;
  const Outcome outcome = place.run("init --json --cluster h100_sxm");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.errors,
            "shardscope init: --model: no model was given; give a folder or config.json of Hugging "
            "Face\n");
}

TEST(Init, GivesItsWordsToScripts) {
  const Outcome outcome =
      Workplace().run("init --json --model " + gpt2 + " --cluster h100_sxm --world 4");
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json.at("schema"), "shardscope.init/1");
  EXPECT_EQ(json.at("command")[7], "4");
  EXPECT_EQ(json.at("assumed").size(), 2U);
}

}  // namespace
}  // namespace shardscope::testing
