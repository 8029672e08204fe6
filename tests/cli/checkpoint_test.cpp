// Jobs that are saved, disturbed and resumed, through the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/format/atomic_file.h"
#include "tests/cli/program.h"
#include "tests/cli/started_program.h"
#include "tests/sanitizers/sanitized.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints() {
    set_up_tiny_job(workplace_);
    workplace_.write("job.json", job("", ""));
  }

  /// Eight steps, saved after each second one; `more` are further keys, `checkpoint` further keys
  /// of that object.
  static std::string job(const std::string& more, const std::string& checkpoint) {
    return replaced(replaced(tiny_job(), "\"steps\": 3", "\"steps\": 8"), "{",
                    R"({"checkpoint": {"every": 2, "keep": 0)" + checkpoint + "}," + more);
  }

  Outcome train(const std::string& arguments, const std::string& variables = "") const {
    return run_program_with(variables, "train job.json --quiet --device cpu " + arguments);
  }
  Outcome run_program_with(const std::string& variables, const std::string& arguments) const {
    StartedProgram::Variables set;
    std::istringstream words(variables);
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      set[word.substr(0, equals)] = word.substr(equals + 1);
    }
    std::vector<std::string> command{SHARDSCOPE_PROGRAM};
    std::istringstream rest(arguments);
    for (std::string word; rest >> word;) command.push_back(word);
    StartedProgram program(command, workplace_.path(), set);
    const auto outcome = program.wait(long_enough);
    EXPECT_TRUE(outcome) << arguments << " does not end";
    return outcome.value_or(Outcome{});
  }
  Json json_of(const std::string& arguments, int code = 0) const {
    const Outcome outcome = workplace_.run(arguments + " --json");
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.errors;
    return Json::parse(outcome.output);
  }

  /// Loss and norm of every step, as text.
  std::string losses(const std::string& run) const {
    std::string text;
    std::istringstream lines(workplace_.read(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      text += line.substr(0, line.find("\"learning_rate\"")) + "\n";
    return text;
  }
  std::vector<int> steps(const std::string& run) const {
    std::vector<int> steps;
    const Json list = json_of("checkpoint list " + run);
    for (const Json& one : list["checkpoints"]) steps.push_back(one["step"]);
    return steps;
  }
  void flip_last_byte(const std::string& name) const {
    std::string bytes = workplace_.read(name);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    workplace_.write(name, bytes);
  }

  Workplace workplace_;
};

TEST_F(Checkpoints, ARunGoesOnFromTheNewest) {
  ASSERT_EQ(train("-o whole").code, 0);
  ASSERT_EQ(train("-o run --steps 5").code, 0);
  EXPECT_THAT(steps("run"), ElementsAre(2, 4, 5));
  const Outcome next = train("-o run --resume");
  EXPECT_EQ(next.code, 0) << next.errors;
  EXPECT_EQ(losses("run"), losses("whole"));
  EXPECT_THAT(steps("run"), ElementsAre(2, 4, 5, 6, 8));
}

TEST_F(Checkpoints, ARunGoesOnFromTheOneThatIsGivenWithOtherRanks) {
  ASSERT_EQ(train("-o run --strategy full_shard").code, 0);
  const Outcome next = train(
      "-o next --strategy no_shard --ranks 1 --batch 4 --resume run/checkpoints/step-00000006");
  EXPECT_EQ(next.code, 0) << next.errors;
  EXPECT_EQ(lines_of(losses("next")), 2u);
}

TEST_F(Checkpoints, WhatIsNoCheckpointIsRefused) {
  EXPECT_THAT(train("-o run --resume model").errors, HasSubstr("is no checkpoint"));
  EXPECT_THAT(train("-o run --resume").errors, HasSubstr("no whole checkpoint to go on from"));
  EXPECT_THAT(run_program_with("", "train -o run --resume job.json").errors,
              HasSubstr("give the job before --resume"));
}

TEST_F(Checkpoints, ANewRunDoesNotStartAmongThem) {
  ASSERT_EQ(train("-o run").code, 0);
  const Outcome again = train("-o run");
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.errors, HasSubstr("has checkpoints of another run, up to step 8"));
  const Outcome nothing_left = train("-o run --resume");
  EXPECT_EQ(nothing_left.code, 0) << nothing_left.errors;
}

TEST_F(Checkpoints, AreListedAndVerified) {
  ASSERT_EQ(train("-o run").code, 0);
  const Json list = json_of("checkpoint list run");
  ASSERT_THAT(list["checkpoints"], SizeIs(4));
  const Json& last = list["checkpoints"][3];
  EXPECT_EQ(last["step"], 8);
  EXPECT_EQ(last["kind"], "sharded");
  EXPECT_EQ(last["world"], 2);
  EXPECT_EQ(last["whole"], true);
  EXPECT_EQ(json_of("checkpoint verify run/checkpoints/step-00000008")["checkpoints"][0]["whole"],
            true);
  const std::string shard = "run/checkpoints/step-00000006/shard-00001-of-00002.safetensors";
  flip_last_byte(shard);
  const Outcome verified = workplace_.run("checkpoint verify run");
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.output, AllOf(HasSubstr("step-00000008: whole"),
                                     HasSubstr("in shard-00001-of-00002.safetensors is damaged")));
  const Outcome resumed = train("-o next --resume run/checkpoints/step-00000006");
  EXPECT_EQ(resumed.code, 2);
  EXPECT_THAT(resumed.errors, HasSubstr("is damaged"));
}

TEST_F(Checkpoints, AreMergedAndResharded) {
  ASSERT_EQ(train("-o run --steps 6").code, 0);
  EXPECT_EQ(json_of("checkpoint merge run -o merged")["kind"], "full");
  EXPECT_EQ(json_of("checkpoint reshard merged --world 3 -o resharded")["files"], 3);
  EXPECT_EQ(json_of("checkpoint convert resharded --to full -o again")["step"], 6);
  // A detour over 3 ranks changes no byte.
  for (const char* file : {"model.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors"})
    EXPECT_EQ(workplace_.read(std::string("again/") + file),
              workplace_.read(std::string("merged/") + file));
  // What the run itself leaves as its model.
  EXPECT_EQ(workplace_.read("merged/model.safetensors"),
            workplace_.read("run/model/model.safetensors"));
  ASSERT_EQ(train("-o whole").code, 0);
  for (const char* from : {"merged", "resharded", "again"}) {
    const std::string name = std::string("from_") + from;
    ASSERT_EQ(train("-o " + name + " --resume " + from).code, 0) << from;
    const std::string all = losses("whole");
    EXPECT_EQ(losses(name), all.substr(all.find("{\"step\": 7"))) << from;
  }
  EXPECT_THAT(workplace_.run("checkpoint merge run -o merged").errors,
              HasSubstr("is there already"));
}

TEST_F(Checkpoints, GoThroughPyTorchsFormat) {
  ASSERT_EQ(train("-o run --steps 6").code, 0);
  EXPECT_EQ(json_of("checkpoint convert run --to dcp -o dcp")["step"], 6);
  const Outcome no_model = workplace_.run("checkpoint convert dcp --to sharded -o back");
  EXPECT_EQ(no_model.code, 2);
  EXPECT_THAT(no_model.errors, HasSubstr("--model"));
  // 6 steps of 2 ranks with 2 sequences of 8.
  EXPECT_EQ(json_of("checkpoint convert dcp --to sharded --model model --next-token 192 "
                    "--world 3 -o back")["step"],
            6);
  ASSERT_EQ(train("-o whole").code, 0);
  ASSERT_EQ(train("-o next --resume back").code, 0);
  const std::string all = losses("whole");
  EXPECT_EQ(losses("next"), all.substr(all.find("{\"step\": 7")));
}

// Our own reading of what accelerate and the Trainer would load.
TEST_F(Checkpoints, GoThroughTheFoldersOfAccelerateAndTheTrainer) {
  ASSERT_EQ(train("-o run --steps 6").code, 0);
  ASSERT_EQ(train("-o whole").code, 0);
  const std::string all = losses("whole");
  for (const auto& [name, to] :
       {std::pair{"sharded", "accelerate"}, std::pair{"full", "accelerate --under fsdp_full"},
        std::pair{"ddp", "accelerate --under ddp"},
        std::pair{"one_group", "accelerate --under ddp --groups one"},
        std::pair{"trainer", "trainer --under ddp"}}) {
    const Json written = json_of(std::string("checkpoint convert run --to ") + to + " -o " + name);
    EXPECT_EQ(written["step"], 6) << name;
    EXPECT_EQ(written["kind"], name == std::string("trainer") ? "trainer" : "accelerate");
    EXPECT_EQ(json_of(std::string("checkpoint verify ") + name)["checkpoints"][0]["whole"], true);
    const std::string next = std::string("next_") + name;
    ASSERT_EQ(train("-o " + next + " --resume " + name).code, 0) << name;
    EXPECT_EQ(losses(next), all.substr(all.find("{\"step\": 7"))) << name;
  }
}

/// A file of llm.c with the tokens 0, 1, ... 14, 0, ...: 256 int32, then uint16.
std::string token_file(int tokens) {
  std::string text;
  const auto add = [&](std::uint32_t value, int width) {
    for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  };
  for (const int value : {20240520, 1, tokens}) add(static_cast<std::uint32_t>(value), 4);
  text.resize(1024);
  for (int i = 0; i < tokens; ++i) add(static_cast<std::uint32_t>(i % 15), 2);
  return text;
}

// What DeepSpeed and accelerate saved after three steps, of the same values.
TEST_F(Checkpoints, OfOtherLibrariesAreResumed) {
  const std::filesystem::path recorded =
      std::filesystem::path(SOURCE_ROOT) / "tests/data/pytorch_checkpoints";
  workplace_.write("tokens.bin", token_file(400));
  workplace_.write("model/config.json", read_whole(recorded / "config.json"));
  workplace_.write("job.json", R"({"model": "model", "data": "tokens.bin", "steps": 5, "batch": 1,
    "seq": 4, "ranks": 2, "strategy": "full_shard", "save_model": false})");
  std::vector<std::string> all;
  for (const char* name : {"deepspeed_zero3", "deepspeed_zero1", "accelerate_fsdp1_sharded",
                           "accelerate_fsdp2_full", "accelerate_ddp"}) {
    const Outcome outcome = workplace_.run("train job.json --device cpu -o " + std::string(name) +
                                           " --resume " + (recorded / name).string());
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.errors;
    // 3 steps of 2 ranks with a sequence of 4.
    EXPECT_THAT(outcome.errors,
                AllOf(HasSubstr("resumes after step 3"), HasSubstr("it is taken to be token 24")));
    all.push_back(losses(name));
    EXPECT_THAT(all.back(), ::testing::StartsWith("{\"step\": 4")) << name;
    EXPECT_EQ(lines_of(all.back()), 2u) << name;
  }
  EXPECT_THAT(all, ::testing::Each(all.front()));
  const std::string zero = (recorded / "deepspeed_zero3").string();
  EXPECT_EQ(train("-o other --next-token 48 --resume " + zero).code, 0);
  EXPECT_NE(losses("other"), all.front());
  const Json listed = json_of("checkpoint list " + zero)["checkpoints"][0];
  EXPECT_EQ(listed["kind"], "deepspeed");
  EXPECT_EQ(listed["strategy"], "zero3");
  EXPECT_EQ(listed["step"], 3);
  EXPECT_EQ(json_of("checkpoint verify " + zero)["checkpoints"][0]["whole"], true);
  EXPECT_EQ(json_of("checkpoint merge " + zero + " --model model -o merged")["kind"], "full");
  EXPECT_EQ(json_of("checkpoint reshard " + zero + " --model model --world 3 -o three")["files"],
            3);
  EXPECT_THAT(train("-o run --next-token 4 --resume").errors, HasSubstr("of another library"));
}

TEST_F(Checkpoints, BadUseIsOneLine) {
  ASSERT_EQ(train("-o run").code, 0);
  for (const auto& [arguments, says] :
       {std::pair{"checkpoint", "say list, verify, convert, merge or reshard"},
        std::pair{"checkpoint shrink run", "is none of list"},
        std::pair{"checkpoint list", "no checkpoint was given"},
        std::pair{"checkpoint list nowhere", "is not there"},
        std::pair{"checkpoint merge nowhere -o x", "nowhere: is not there"},
        std::pair{"checkpoint convert job.json --to dcp -o x", "job.json: is a file"},
        std::pair{"checkpoint list job.json", "job.json: is a file"},
        std::pair{"checkpoint verify job.json", "job.json: is a file"},
        std::pair{"checkpoint list run -o list.json", "-o: list only reads checkpoints"},
        std::pair{"checkpoint list run --world 2", "--world: list only reads checkpoints"},
        std::pair{"checkpoint verify run --to full", "--to: verify only reads checkpoints"},
        std::pair{"checkpoint merge run", "give -o FOLDER"},
        std::pair{"checkpoint convert run -o x", "no format was given"},
        std::pair{"checkpoint convert run --to pickle -o x", "none of sharded, full, dcp, accel"},
        std::pair{"checkpoint convert run --to accelerate --under zero -o x", "--under: \"zero\""},
        std::pair{"checkpoint convert run --to trainer --groups two -o x", "--groups: \"two\""},
        std::pair{"checkpoint convert run --to dcp --under ddp -o x", "--under: is only for --to"},
        std::pair{"checkpoint convert run --to dcp --world 2 -o x", "--world: is only for reshard"},
        std::pair{"checkpoint convert run --to trainer --world 0 -o x", "expected 1 to"},
        std::pair{"checkpoint merge run --world 2 -o x", "--world: is only for reshard"},
        std::pair{"checkpoint list run --groups one", "--groups: list only reads checkpoints"},
        std::pair{"checkpoint reshard run --world 0 -o x", "expected 1 to"},
        std::pair{"checkpoint verify model", "has no checkpoints"}}) {
    const Outcome outcome = workplace_.run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(says)) << arguments;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
  }
}

TEST_F(Checkpoints, ALostRankIsRestartedFromTheNewest) {
  ASSERT_EQ(train("-o whole").code, 0);
  const Outcome lost = train("-o lost", "SHARDSCOPE_FAULT=kill,rank=1,step=6");
  EXPECT_EQ(lost.code, 4) << lost.errors;
  const Outcome restarted = train("-o run --max-restarts 1", "SHARDSCOPE_FAULT=kill,rank=1,step=6");
  EXPECT_EQ(restarted.code, 0) << restarted.errors;
  EXPECT_EQ(losses("run"), losses("whole"));
  // Also before there is one.
  const Outcome anew = train("-o anew --max-restarts 1", "SHARDSCOPE_FAULT=kill,rank=0,step=1");
  EXPECT_EQ(anew.code, 0) << anew.errors;
  EXPECT_EQ(losses("anew"), losses("whole"));
}

TEST_F(Checkpoints, ARankThatHangsIsRestarted) {
  workplace_.write("job.json", job(R"("timeout": "3 s",)", ""));
  ASSERT_EQ(train("-o whole").code, 0);
  const Outcome outcome = train("-o run --max-restarts 1", "SHARDSCOPE_FAULT=hang,rank=1,step=5");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(losses("run"), losses("whole"));
}

TEST_F(Checkpoints, WrongInputIsNotTriedAgain) {
  const Outcome outcome = train("-o run --max-restarts 3", "SHARDSCOPE_FAULT=explode");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("is no fault"));
}

TEST_F(Checkpoints, ADamagedNewestIsPassedOver) {
  ASSERT_EQ(train("-o whole").code, 0);
  ASSERT_EQ(train("-o run --steps 6").code, 0);
  // Sizes and headers are as they were: only reading rank 1's part shows it.
  flip_last_byte("run/checkpoints/step-00000006/shard-00001-of-00002.safetensors");
  const Outcome next = train("-o run --resume");
  EXPECT_EQ(next.code, 0) << next.errors;
  EXPECT_THAT(next.errors, HasSubstr("step-00000006 is passed over: "));
  EXPECT_EQ(losses("run"), losses("whole"));
  // Nothing is left to go on from.
  for (const char* step : {"2", "4", "6", "8"})
    flip_last_byte(std::string("run/checkpoints/step-0000000") + step +
                   "/shard-00000-of-00002.safetensors");
  const Outcome none = train("-o run --resume");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("no whole checkpoint to go on from"));
}

// The run that goes on from step 4 has another learning rate, and is lost before it saves.
TEST_F(Checkpoints, ARestartDoesNotGoBackToWhatTheRunHasLeft) {
  ASSERT_EQ(train("-o run").code, 0);
  workplace_.write("job.json", job(R"("lr": {"peak": 1e-2},)", ""));
  ASSERT_EQ(train("-o other --resume run/checkpoints/step-00000004").code, 0);
  const Outcome outcome = train("-o run --max-restarts 1 --resume run/checkpoints/step-00000004",
                                "SHARDSCOPE_FAULT=kill,rank=1,step=5");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("a checkpoint newer than step 4 is renamed: "),
                                    HasSubstr("set-aside-step-00000008")));
  const std::string all = losses("run");
  EXPECT_EQ(all.substr(all.find("{\"step\": 5")), losses("other"));
  EXPECT_THAT(steps("run"), ElementsAre(2, 4, 6, 8));
}

// The run folder has a checkpoint of that step, too, from a run with another learning rate.
TEST_F(Checkpoints, ARestartGoesOnFromTheGivenOneOfAnotherRun) {
  ASSERT_EQ(train("-o run").code, 0);
  workplace_.write("job.json", job(R"("lr": {"peak": 1e-2},)", ""));
  ASSERT_EQ(train("-o other").code, 0);
  const Outcome outcome = train("-o run --max-restarts 1 --resume other/checkpoints/step-00000006",
                                "SHARDSCOPE_FAULT=kill,rank=1,step=7");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("a checkpoint that this run does not follow is "),
                    HasSubstr("set-aside-step-00000002"), HasSubstr("set-aside-step-00000008")));
  const auto from_step_7 = [](const std::string& all) {
    return all.substr(all.find("\"step\": 7"));
  };
  EXPECT_EQ(from_step_7(losses("run")), from_step_7(losses("other")));
  EXPECT_THAT(steps("run"), ElementsAre(8));
}

// Rank 0 renames 6 and 8 in its first two calls that change files there, and is killed by the
// third, before any step.
TEST_F(Checkpoints, WhatIsRenamedStaysSoWhereARankIsLostBeforeTheFirstStep) {
  if (test::is_sanitized) GTEST_SKIP() << "a sanitizer must be the first library of a program";
  ASSERT_EQ(train("-o run").code, 0);
  workplace_.write("job.json", job(R"("lr": {"peak": 1e-2},)", ""));
  ASSERT_EQ(train("-o other --resume run/checkpoints/step-00000004").code, 0);
  const Outcome lost =
      train("-o run --resume run/checkpoints/step-00000004",
            "LD_PRELOAD=" SHARDSCOPE_FILE_FAULTS " SHARDSCOPE_FILE_FAULT=kill,number=3,rank=0");
  EXPECT_EQ(lost.code, 4) << lost.errors;
  EXPECT_THAT(steps("run"), ElementsAre(2, 4));
  // So the newest is the one that was given, and not one of the run that was left.
  ASSERT_EQ(train("-o run --resume").code, 0);
  EXPECT_EQ(losses("run").substr(losses("run").find("{\"step\": 5")), losses("other"));
}

// Damage in rank 1's part is only met while the ranks load.
TEST_F(Checkpoints, ARefusedResumeLeavesTheRunAsItWas) {
  ASSERT_EQ(train("-o run").code, 0);
  flip_last_byte("run/checkpoints/step-00000004/shard-00001-of-00002.safetensors");
  const std::string job_before = workplace_.read("run/job.json"), losses_before = losses("run");
  const Outcome outcome = train("-o run --steps 9 --resume run/checkpoints/step-00000004");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("is damaged"), Not(HasSubstr("is renamed"))));
  EXPECT_THAT(steps("run"), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(workplace_.read("run/job.json"), job_before);
  EXPECT_EQ(losses("run"), losses_before);
}

/// Every file below a folder, with its content.
std::map<std::string, std::string> files_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().string()] = read_whole(entry.path());
  return files;
}

TEST_F(Checkpoints, WhatCannotBeResumedIsRefusedBeforeAnythingIsChanged) {
  ASSERT_EQ(train("-o run").code, 0);
  workplace_.write("wide/config.json", replaced(tiny_config(), "\"n_embd\": 16", "\"n_embd\": 32"));
  const auto before = files_below(workplace_.path() / "run");
  for (const auto& [options, says] :
       {std::pair{"--model wide --resume run/checkpoints/step-00000004", "has the shape ["},
        std::pair{"--batch 100000 --resume run/checkpoints/step-00000004", "tokens"},
        std::pair{"--resume elsewhere", "is no checkpoint"}}) {
    const Outcome outcome = train(std::string("-o run ") + options);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.errors, HasSubstr(says));
    EXPECT_EQ(files_below(workplace_.path() / "run"), before) << options;
  }
}

TEST_F(Checkpoints, ARestartPassesOverADamagedOne) {
  ASSERT_EQ(train("-o whole").code, 0);
  ASSERT_EQ(train("-o run --steps 6").code, 0);
  flip_last_byte("run/checkpoints/step-00000006/shard-00000-of-00002.safetensors");
  const Outcome next =
      train("-o run --resume --max-restarts 1", "SHARDSCOPE_FAULT=kill,rank=1,step=8");
  EXPECT_EQ(next.code, 0) << next.errors;
  EXPECT_EQ(losses("run"), losses("whole"));
}

// Also where it is the newest of the run folder, and its path is spelled in another way.
TEST_F(Checkpoints, ADamagedOneThatIsGivenIsRefusedByARestart) {
  ASSERT_EQ(train("-o run").code, 0);
  flip_last_byte("run/checkpoints/step-00000008/shard-00000-of-00002.safetensors");
  const Outcome next =
      train("-o run --resume run/checkpoints/step-00000008/", "SHARDSCOPE_RESTART=1");
  EXPECT_EQ(next.code, 2) << next.errors;
  EXPECT_THAT(next.errors, HasSubstr("is damaged"));
  EXPECT_THAT(steps("run"), ElementsAre(2, 4, 6, 8));
}

// A new checkpoint is not removed because a damaged one of a larger step is there.
TEST_F(Checkpoints, ADamagedOneDoesNotCountAsTheNewest) {
  ASSERT_EQ(train("-o run --steps 6").code, 0);
  flip_last_byte("run/checkpoints/step-00000006/shard-00001-of-00002.safetensors");
  workplace_.write("job.json", replaced(job("", ""), "\"keep\": 0", "\"keep\": 1"));
  const Outcome next = train("-o run --resume --steps 5");
  EXPECT_EQ(next.code, 0) << next.errors;
  EXPECT_THAT(next.errors, HasSubstr("a checkpoint newer than step 4 is renamed: "));
  EXPECT_TRUE(workplace_.has("run/checkpoints/set-aside-step-00000006/checkpoint.json"));
  EXPECT_THAT(steps("run"), ElementsAre(5));
}

// Rank 0 has read all of each checkpoint, its optimizer states too, when rank 1 meets the damage.
TEST_F(Checkpoints, ARestartAnewKeepsNothingOfDamagedOnes) {
  ASSERT_EQ(train("-o whole").code, 0);
  ASSERT_EQ(train("-o run --steps 6").code, 0);
  for (const char* step : {"2", "4", "6"})
    flip_last_byte(std::string("run/checkpoints/step-0000000") + step +
                   "/shard-00001-of-00002.safetensors");
  const Outcome anew = train("-o run", "SHARDSCOPE_RESTART=1");
  EXPECT_EQ(anew.code, 0) << anew.errors;
  EXPECT_THAT(anew.errors, HasSubstr("step-00000002 is passed over: "));
  EXPECT_EQ(losses("run"), losses("whole"));
  EXPECT_THAT(steps("run"), ElementsAre(2, 4, 6, 8));
}

// A disk that is full, over its quota, read-only, broken, or of a server that has forgotten it.
TEST_F(Checkpoints, ADiskThatFailsCostsTheCheckpointAndNotTheRun) {
  if (test::is_sanitized) GTEST_SKIP() << "a sanitizer must be the first library of a program";
  const std::string preload = "LD_PRELOAD=" SHARDSCOPE_FILE_FAULTS " SHARDSCOPE_FILE_FAULT=";
  ASSERT_EQ(train("-o whole", preload + "count,rank=1 SHARDSCOPE_FILE_FAULT_COUNT=calls.txt").code,
            0);
  // Near the end of rank 1's part of the last save.
  const long failing_call = std::stol(workplace_.read("calls.txt")) - 2;
  for (const auto& [error, says] :
       {std::pair{"ENOSPC", "No space left on device"}, std::pair{"EDQUOT", "Disk quota exceeded"},
        std::pair{"EROFS", "Read-only file system"}, std::pair{"EIO", "Input/output error"},
        std::pair{"ESTALE", "Stale file handle"}}) {
    const std::string run = std::string("run_") + error;
    const Outcome outcome =
        train("-o " + run,
              preload + "fail,number=" + std::to_string(failing_call) + ",rank=1,error=" + error);
    EXPECT_EQ(outcome.code, 3) << outcome.errors;
    EXPECT_THAT(outcome.errors,
                AllOf(HasSubstr("the checkpoint of step 8 was not saved"), HasSubstr(says)));
    EXPECT_EQ(losses(run), losses("whole"));
    EXPECT_EQ(json_of("checkpoint verify " + run)["checkpoints"].size(), steps(run).size());
  }
}

TEST_F(Checkpoints, AnInjectedFailureIsOfOneSave) {
  ASSERT_EQ(train("-o whole").code, 0);
  const Outcome outcome = train("-o run", "SHARDSCOPE_FAULT=write,rank=1,step=4");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("the checkpoint of step 4 was not saved"));
  EXPECT_THAT(steps("run"), ElementsAre(2, 6, 8));
  EXPECT_EQ(losses("run"), losses("whole"));
  EXPECT_EQ(train("-o last", "SHARDSCOPE_FAULT=write,rank=0,step=8").code, 3);
  EXPECT_THAT(steps("last"), ElementsAre(2, 4, 6));
}

/// Runs on file systems of its own, which only its processes see.
class Mounts : public Checkpoints {
 protected:
  void SetUp() override {
    if (with_mounts("mount -t tmpfs none .").code != 0)
      GTEST_SKIP() << "file systems cannot be mounted here";
  }
  /// In `script`, "${train[@]}" begins a command that trains.
  Outcome with_mounts(const std::string& script) const {
    StartedProgram program(
        {"unshare", "--mount", "bash", "-c",
         "train=('" SHARDSCOPE_PROGRAM "' train job.json --quiet --device cpu); " + script},
        workplace_.path());
    return program.wait(long_enough).value_or(Outcome{});
  }
  /// A run in `run`, whose file system at `mounted` is unmounted after the first save. Its output
  /// names what lies below the mount point then.
  Outcome with_vanishing(const std::string& mounted, const std::string& run,
                         const std::string& options = "") const {
    return with_mounts(fmt::format("at={} run={} options='{}'; ", mounted, run, options) +
                       R"(mkdir $at; mount -t tmpfs none $at
         "${train[@]}" -o $run $options & pid=$!
         trap 'kill -KILL $pid 2>/dev/null' EXIT
         until [ -e $run/checkpoints/step-00000002 ] || ! kill -0 $pid 2>/dev/null; do
           sleep 0.01
         done
         umount --lazy $at; sleep 0.3; kill -TERM $pid; wait $pid; code=$?
         find $at -name 'step-*' -o -name 'trace*'; exit $code)");
  }
};

TEST_F(Mounts, AFullFileSystemKeepsWhatItHas) {
  ASSERT_EQ(train("-o whole").code, 0);
  const Outcome outcome = with_mounts(
      "mkdir -p run/checkpoints; mount -t tmpfs -o size=300k none run/checkpoints; "
      "\"${train[@]}\" -o run; "
      "code=$?; cp -r run/checkpoints kept; exit $code");
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("No space left on device"));
  EXPECT_EQ(losses("run"), losses("whole"));
  EXPECT_EQ(json_of("checkpoint verify kept")["checkpoints"][0]["whole"], true);
}

TEST_F(Mounts, AReadOnlyFileSystemIsNamed) {
  ASSERT_EQ(train("-o whole").code, 0);
  const Outcome outcome = with_mounts(
      "mkdir -p run/checkpoints; mount -t tmpfs -o ro none run/checkpoints; "
      "\"${train[@]}\" -o run");
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("Read-only file system"));
  EXPECT_EQ(losses("run"), losses("whole"));
}

// Nothing is written below the mount point, where nobody would look for it.
TEST_F(Mounts, ARunWhoseFileSystemVanishesWritesNowhereElse) {
  workplace_.write("job.json", replaced(job("", ""), "\"steps\": 8", "\"steps\": 9000000"));
  for (const auto& [mounted, run] : {std::pair{"run", "run"}, std::pair{"disk", "disk/run"}}) {
    const Outcome outcome = with_vanishing(mounted, run);
    EXPECT_EQ(outcome.code, 3) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("is not there, so this is not the folder"));
    EXPECT_EQ(outcome.output, "") << mounted;
  }
}

// It would begin anew there.
TEST_F(Mounts, ARunWhoseFileSystemVanishesIsNotStartedAgain) {
  workplace_.write("job.json", replaced(job("", ""), "\"steps\": 8", "\"steps\": 9000000"));
  for (const auto& [mounted, run] : {std::pair{"run", "run"}, std::pair{"disk", "disk/run"}}) {
    const Outcome outcome = with_vanishing(mounted, run, "--max-restarts 2");
    EXPECT_EQ(outcome.code, 3) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("is no longer the folder that the job began in"));
    EXPECT_EQ(outcome.output, "") << mounted;
  }
}

TEST_F(Checkpoints, SigtermSavesAndLeaves) {
  workplace_.write("job.json", replaced(job("", ""), "\"steps\": 8", "\"steps\": 9000000"));
  StartedProgram program({SHARDSCOPE_PROGRAM, "train", "job.json", "--quiet", "-o", "run"},
                         workplace_.path());
  ASSERT_TRUE(comes_true([&] {
    return workplace_.has("run/metrics.jsonl") &&
           lines_of(workplace_.read("run/metrics.jsonl")) >= 3;
  }));
  ::kill(program.id(), SIGTERM);
  const auto outcome = program.wait(long_enough);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 130) << outcome->errors;
  const auto done = static_cast<int>(lines_of(workplace_.read("run/metrics.jsonl")));
  EXPECT_EQ(steps("run").back(), done);
}

// So many files, each synced, take longer than the signal needs.
TEST_F(Checkpoints, CtrlCLeavesNothingOfARewrite) {
  ASSERT_EQ(train("-o run --steps 2").code, 0);
  StartedProgram program(
      {SHARDSCOPE_PROGRAM, "checkpoint", "reshard", "run", "--world", "1000", "-o", "again"},
      workplace_.path());
  ASSERT_TRUE(comes_true(
      [&] { return workplace_.has(".again.partial/shard-00000-of-01000.safetensors"); }));
  ::kill(program.id(), SIGINT);
  const auto outcome = program.wait(long_enough);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 130);
  EXPECT_THAT(outcome->errors, HasSubstr("interrupted; nothing was left"));
  EXPECT_FALSE(workplace_.has(".again.partial"));
  EXPECT_FALSE(workplace_.has("again"));
}

class NotFinite : public Checkpoints {
 protected:
  Outcome train_under(const std::string& policy, const std::string& run,
                      const std::string& fault) const {
    workplace_.write("job.json", job(R"("on_not_finite": ")" + policy + "\",", ""));
    return train("-o " + run, fault);
  }
  const std::string nan_ = "SHARDSCOPE_FAULT=nan,rank=1,step=5,operation=all_gather:root";
};

TEST_F(NotFinite, StopsWithCodeFive) {
  const Outcome outcome = train_under("stop", "run", nan_);
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.errors, HasSubstr("step 5: the loss is nan"));
  EXPECT_THAT(steps("run"), ElementsAre(2, 4));
}

TEST_F(NotFinite, SkipsTheStepAlone) {
  ASSERT_EQ(train("-o whole").code, 0);
  const Outcome outcome = train_under("skip", "run", nan_);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  std::istringstream lines(workplace_.read("run/metrics.jsonl"));
  std::vector<Json> steps;
  for (std::string line; std::getline(lines, line);) steps.push_back(Json::parse(line));
  ASSERT_EQ(steps.size(), 8u);
  EXPECT_TRUE(steps[4]["loss"].is_null());
  EXPECT_EQ(steps[4]["skipped"], true);
  for (const int good : {0, 1, 2, 3, 5, 6, 7}) EXPECT_TRUE(steps[good]["loss"].is_number()) << good;
  // Skipped steps are not those of the optimizer: a run that goes on knows how many there were.
  ASSERT_EQ(train("-o next --resume run/checkpoints/step-00000006").code, 0);
  const std::string all = losses("run");
  EXPECT_EQ(losses("next"), all.substr(all.find("{\"step\": 7")));
}

TEST_F(NotFinite, ARerunThatDiffersIsTheMachinesFault) {
  ASSERT_EQ(train("-o whole").code, 0);
  const Outcome outcome = train_under("rerun", "run", nan_);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("a fault of a machine"));
  EXPECT_EQ(losses("run"), losses("whole"));
}

TEST_F(NotFinite, ARerunThatIsTheSameIsNot) {
  workplace_.write("job.json",
                   job(R"("on_not_finite": "rerun", "lr": {"peak": 1e38}, "clip": null,)", ""));
  const Outcome outcome = train("-o run");
  EXPECT_EQ(outcome.code, 5) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("when run again, too"));
}

}  // namespace
}  // namespace shardscope::testing
