// shardscope profile and its kin: windows of jobs that run, asked for from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "backend/base/process_identity.h"
#include "backend/profile/job_notice.h"
#include "backend/profile/window_request.h"
#include "tests/cli/started_program.h"

namespace shardscope::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Profile : public ::testing::Test {
 protected:
  Profile() {
    set_up_tiny_job(workplace_);
    std::string text;
    for (int i = 0; i < 400000; ++i) text += "the quick brown fox " + std::to_string(i) + "\n";
    workplace_.write("text.txt", text);
    workplace_.write("job.json",
                     replaced(tiny_job(), "\"steps\": 3", "\"steps\": 9000000, \"threads\": 1"));
  }

  StartedProgram start() const {
    return StartedProgram({SHARDSCOPE_PROGRAM, "train", "job.json", "--device", "cpu",
                           "--precision", "fp32", "-o", (workplace_.path() / "run").string()},
                          workplace_.path());
  }
  void wait_for_steps() const {
    ASSERT_TRUE(comes_true([&] {
      return workplace_.has("run/running.json") &&
             lines_of(workplace_.read("run/metrics.jsonl")) >= 3;
    })) << "no step was finished";
  }
  std::vector<std::string> windows() const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry :
         std::filesystem::directory_iterator(workplace_.path() / "run/profiles", none))
      names.push_back(entry.path().filename().string());
    return names;
  }
  static Outcome end(StartedProgram& job) {
    ::kill(job.id(), SIGINT);
    return job.wait(long_enough).value_or(Outcome{});
  }

  Workplace workplace_;
};

TEST_F(Profile, LeavesAWindowOfTheRunningJob) {
  StartedProgram job = start();
  wait_for_steps();
  const Outcome outcome = workplace_.run("profile run --steps 4");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  ASSERT_THAT(windows(), SizeIs(1));
  EXPECT_THAT(outcome.output, HasSubstr("profiles/" + windows()[0]));
  for (const char* file : {"trace.0.json.gz", "trace.1.json.gz", "comparison.txt"})
    EXPECT_TRUE(workplace_.has("run/profiles/" + windows()[0] + "/" + file)) << file;
  EXPECT_EQ(end(job).code, 130);
  EXPECT_THAT(workplace_.read("run/running.json"), HasSubstr(R"("state":"ended")"));
  EXPECT_THAT(workplace_.run("profile run").errors, HasSubstr("no job runs there any more"));
}

TEST_F(Profile, GivesTheComparisonAsJson) {
  StartedProgram job = start();
  wait_for_steps();
  const Outcome outcome = workplace_.run("profile run --steps 2 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["schema"], "shardscope.comparison/1");
  EXPECT_THAT(json["steps"], SizeIs(2));
  ASSERT_THAT(json["ranks"], SizeIs(2));
  for (const auto& rank : json["ranks"]) {
    EXPECT_EQ(rank["compute_ns"].get<std::int64_t>() +
                  rank["exposed_communication_ns"].get<std::int64_t>() +
                  rank["exposed_copy_ns"].get<std::int64_t>() + rank["idle_ns"].get<std::int64_t>(),
              rank["span_ns"].get<std::int64_t>());
  }
  end(job);
}

TEST_F(Profile, ASignalToTheLauncherStartsOne) {
  StartedProgram job = start();
  wait_for_steps();
  ::kill(job.id(), SIGUSR1);
  EXPECT_TRUE(comes_true([&] { return !windows().empty(); }));
  EXPECT_EQ(end(job).code, 130);
  ASSERT_THAT(windows(), SizeIs(1));
  EXPECT_TRUE(workplace_.has("run/profiles/" + windows()[0] + "/comparison.json"));
}

TEST_F(Profile, RefusesWhileAWindowIsOpen) {
  workplace_.write("job.json", replaced(workplace_.read("job.json"), "\"threads\": 1",
                                        R"("threads": 1, "profile": {"start": 1, "steps": 1000})"));
  StartedProgram job = start();
  wait_for_steps();
  const Outcome outcome = workplace_.run("profile run --quiet");
  end(job);
  // The window may have closed before on a fast machine.
  if (outcome.code == 0) GTEST_SKIP() << "the window was closed before";
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("no window: steps 1-1000 are being profiled"));
  EXPECT_EQ(lines_of(outcome.errors), 1u);
}

TEST_F(Profile, TwoAtOnceGetWindowsOfTheirOwn) {
  StartedProgram job = start();
  wait_for_steps();
  StartedProgram first({SHARDSCOPE_PROGRAM, "profile", "run", "--steps", "2", "--json"},
                       workplace_.path());
  StartedProgram second({SHARDSCOPE_PROGRAM, "profile", "run", "--steps", "3", "--json"},
                        workplace_.path());
  std::size_t steps = 2;
  int windows = 0;
  for (StartedProgram* asks : {&first, &second}) {
    const auto outcome = asks->wait(long_enough);
    ASSERT_TRUE(outcome) << "it hangs";
    if (outcome->code == 0) {
      ++windows;
      EXPECT_THAT(nlohmann::json::parse(outcome->output)["steps"], SizeIs(steps));
    } else if (outcome->code == 3) {
      // A rank was not done with the window before within a second.
      EXPECT_THAT(outcome->errors, HasSubstr("left these steps out"));
    } else {
      EXPECT_EQ(outcome->code, 1);
      EXPECT_TRUE(outcome->errors.find("no window: ") != std::string::npos ||
                  outcome->errors.find("another request waits") != std::string::npos)
          << outcome->errors;
    }
    ++steps;
  }
  EXPECT_GE(windows, 1);
  end(job);
}

TEST_F(Profile, TakesThePlaceOfARequestThatNobodyWaitsFor) {
  StartedProgram job = start();
  wait_for_steps();
  std::string dead;
  {
    StartedProgram asks({"sleep", "60"}, workplace_.path());
    dead = replaced(own_identity(), std::to_string(::getpid()) + " ",
                    std::to_string(asks.id()) + " 1");
  }
  workplace_.write("run/profile.request", R"({"id": ")" + dead + R"(", "steps": 3})");
  const Outcome outcome = workplace_.run("profile run --steps 2 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(nlohmann::json::parse(outcome.output)["steps"], SizeIs(2));
  end(job);
}

TEST_F(Profile, WaitsForAJobThatStarts) {
  // A job whose ranks do not come to say that they run.
  StartedProgram job = start();
  ASSERT_TRUE(comes_true([&] { return workplace_.has("run/running.json"); }));
  ::kill(-job.id(), SIGSTOP);
  StartedProgram asks({SHARDSCOPE_PROGRAM, "profile", "run", "--steps", "2"}, workplace_.path());
  EXPECT_FALSE(asks.wait(milliseconds(300)));
  ::kill(-job.id(), SIGCONT);
  const auto outcome = asks.wait(long_enough);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 0) << outcome->errors;
  end(job);
}

/// A job that this process plays: what it answers, and how `shardscope profile` takes it.
class AnsweredProfile : public ::testing::Test {
 protected:
  AnsweredProfile() : before_(::signal(SIGUSR1, SIG_IGN)) {
    workplace_.write("run/job.json", tiny_job());
  }
  ~AnsweredProfile() override { ::signal(SIGUSR1, before_); }

  StartedProgram ask(const std::string& timeout = "300") const {
    return StartedProgram({SHARDSCOPE_PROGRAM, "profile", "run", "--timeout", timeout},
                          workplace_.path());
  }
  /// The request's id; waits for it.
  std::string taken() const {
    std::optional<WindowRequest> request;
    EXPECT_TRUE(comes_true([&] { return (request = take_request(folder())).has_value(); }));
    return request.value_or(WindowRequest{}).id;
  }
  std::filesystem::path folder() const { return workplace_.path() / "run"; }

  Workplace workplace_;

 private:
  sighandler_t before_;
};

TEST_F(AnsweredProfile, EndsWhereTheResultsFail) {
  JobNoticeFile job(folder(), own_notice(10));
  StartedProgram asks = ask();
  job.open(taken(), {3, 4});
  job.close({3, 4});
  job.fail({3, 4}, "trace.1.json.gz: is a folder");
  const auto outcome = asks.wait(long_enough);
  ASSERT_TRUE(outcome) << "it hangs";
  EXPECT_EQ(outcome->code, 3);
  EXPECT_THAT(outcome->errors,
              HasSubstr("steps 3-4 have no results: trace.1.json.gz: is a folder"));
}

TEST_F(AnsweredProfile, EndsWhereTheResultsDoNotComeInTime) {
  JobNoticeFile job(folder(), own_notice(10));
  StartedProgram asks = ask("1");
  const std::string id = taken();
  job.open(id, {3, 4});
  EXPECT_FALSE(asks.wait(milliseconds(1500))) << "its steps may take their time";
  job.close({3, 4});
  const auto outcome = asks.wait(long_enough);
  ASSERT_TRUE(outcome) << "it hangs";
  EXPECT_EQ(outcome->code, 3);
  EXPECT_THAT(outcome->errors, HasSubstr("not there 1 s after the last step (--timeout)"));
}

TEST_F(AnsweredProfile, ReadsTheAnswerOfAJobThatHasEndedSince) {
  std::optional<JobNoticeFile> job;
  job.emplace(folder(), own_notice(10));
  StartedProgram asks = ask();
  job->open(taken(), {9, 10});
  job->close({9, 10});
  workplace_.write("run/profiles/9-10/comparison.txt", "steps 9-10\n");
  workplace_.write("run/profiles/9-10/comparison.json", "{}\n");
  job.reset();
  const auto outcome = asks.wait(long_enough);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 0) << outcome->errors;
  EXPECT_THAT(outcome->output, HasSubstr("steps 9-10"));
}

TEST_F(AnsweredProfile, SaysThatTheJobStarts) {
  std::optional<StartingNotice> starting;
  starting.emplace(folder(), 10);
  StartedProgram asks = ask();
  EXPECT_TRUE(
      comes_true([&] { return asks.errors_so_far().find("is starting") != std::string::npos; }));
  JobNoticeFile job(folder(), own_notice(10));
  job.refuse(taken(), "there is no further step");
  const auto outcome = asks.wait(long_enough);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 1);
  EXPECT_THAT(outcome->errors, HasSubstr("the job is starting"));
  EXPECT_THAT(outcome->errors, HasSubstr("no window: there is no further step"));
}

TEST_F(Profile, EndsWhereTheJobCannotLeaveTheResults) {
  StartedProgram job = start();
  wait_for_steps();
  workplace_.write("run/profiles", "in the way of the folder");
  StartedProgram asks({SHARDSCOPE_PROGRAM, "profile", "run", "--steps", "2"}, workplace_.path());
  const auto outcome = asks.wait(long_enough);
  ASSERT_TRUE(outcome) << "it waits for the job's end";
  EXPECT_EQ(outcome->code, 3) << outcome->errors;
  EXPECT_THAT(outcome->errors, HasSubstr("have no results: "));
  EXPECT_EQ(end(job).code, 130);
}

TEST_F(Profile, ASignalRightBeforeAWindowIsToldWhyItStartsNone) {
  StartedProgram job = start();
  wait_for_steps();
  const pid_t rank = process_with((workplace_.path() / "run").string(), "RANK=0").value();
  ASSERT_TRUE(leave_request(workplace_.path() / "run", {.id = "me", .steps = 1000}));
  ::kill(rank, SIGUSR1);
  // Once it is taken the window has yet to open.
  const auto end = std::chrono::steady_clock::now() + long_enough;
  while (workplace_.has("run/profile.request") && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  ::kill(rank, SIGUSR1);
  EXPECT_TRUE(
      comes_true([&] { return job.errors_so_far().find("no window: ") != std::string::npos; }));
  ::kill(job.id(), SIGINT);
  const auto outcome = job.wait(long_enough);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 130);
  EXPECT_THAT(outcome->errors,
              ::testing::ContainsRegex("no window: steps [0-9]+-[0-9]+ are being"));
}

TEST_F(Profile, IsNothingThatTrainDiesOf) {
  // From main's first line on; before it the program is only being loaded.
  StartedProgram job = start();
  ASSERT_TRUE(comes_true([&] { return cares(job.id(), SIGUSR1, SignalCare::ignores); }));
  for (int i = 0; i < 300 && !workplace_.has("run/metrics.jsonl"); ++i) {
    // All that there are: the launcher and its ranks.
    ::kill(-job.id(), SIGUSR1);
    std::this_thread::sleep_for(milliseconds(10));
  }
  wait_for_steps();
  EXPECT_EQ(end(job).code, 130);
}

TEST_F(Profile, SaysThatARunHasEnded) {
  workplace_.write("job.json", tiny_job());
  ASSERT_EQ(workplace_.run("train job.json --quiet --device cpu -o run").code, 0);
  const Outcome outcome = workplace_.run("profile run");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("no job runs there any more"));
}

TEST_F(Profile, SaysThatAKilledRunHasEnded) {
  {
    StartedProgram job = start();
    wait_for_steps();
  }
  const std::string run = (workplace_.path() / "run").string();
  ASSERT_TRUE(comes_true([&] { return processes_with(run).empty(); }));
  const Outcome outcome = workplace_.run("profile run");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("no job runs there any more"));
}

TEST_F(Profile, SaysWhatIsNoRunFolder) {
  const Outcome outcome = workplace_.run("profile nowhere");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("is no run folder"));
}

TEST_F(Profile, SaysWhereTheJobRuns) {
  workplace_.write("run/job.json", tiny_job());
  workplace_.write("run/running.json",
                   R"({"schema": "shardscope.running/1", "state": "running", )"
                   R"("process": "another-boot 1 77 5", "host": "node7", "steps": 10, )"
                   R"("answers": []})");
  const Outcome outcome = workplace_.run("profile run");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.errors, HasSubstr("rank 0 runs on node7"));
}

TEST_F(Profile, WithdrawsAtCtrlCWhatNobodyHeardOf) {
  // A job that does not come to its next step.
  StartedProgram job = start();
  wait_for_steps();
  ::kill(process_with((workplace_.path() / "run").string(), "RANK=0").value(), SIGSTOP);
  StartedProgram asks({SHARDSCOPE_PROGRAM, "profile", "run"}, workplace_.path());
  ASSERT_TRUE(comes_true([&] { return workplace_.has("run/profile.request"); }));
  const Outcome second = workplace_.run("profile run");
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.errors, HasSubstr("another request waits"));
  EXPECT_TRUE(workplace_.has("run/profile.request")) << "it is the first one's";
  ::kill(asks.id(), SIGINT);
  const auto outcome = asks.wait(long_enough);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 130);
  EXPECT_THAT(outcome->errors, HasSubstr("withdrawn"));
  EXPECT_FALSE(workplace_.has("run/profile.request"));
}

TEST_F(Profile, ARankThatIsLostInAWindowEndsTheJobAsEver) {
  workplace_.write("job.json", replaced(workplace_.read("job.json"), "\"threads\": 1",
                                        R"("threads": 1, "profile": {"start": 1, "steps": 1000})"));
  StartedProgram job = start();
  wait_for_steps();
  ::kill(process_with((workplace_.path() / "run").string(), "RANK=1").value(), SIGKILL);
  const auto outcome = job.wait(long_enough);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 4);
  EXPECT_THAT(outcome->errors, HasSubstr("rank 1: was killed by signal 9 (Killed)"));
  EXPECT_FALSE(workplace_.has("run/running.json"));
}

TEST_F(Profile, IsAnOptionOfTrain) {
  workplace_.write("job.json", replaced(tiny_job(), "\"steps\": 3", "\"steps\": 9"));
  const Outcome outcome =
      workplace_.run("train job.json --device cpu --quiet --profile 2:2:4 -o run");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(windows(), ::testing::UnorderedElementsAre("2-3", "6-7"));
  const Outcome wrong = workplace_.run("train job.json --profile 2:0");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.errors, HasSubstr("START[:STEPS[:EVERY]]"));
  const Outcome empty = workplace_.run("train --profile= job.json");
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.errors, HasSubstr("--profile: no value stands after ="));
  const Outcome dense = workplace_.run("train job.json --profile 2:5:4");
  EXPECT_THAT(dense.errors, HasSubstr("every 4 is less than the 5 steps of a window"));
}

TEST_F(Profile, BehindTheLastStepIsNotedAtTheStart) {
  workplace_.write("job.json", replaced(tiny_job(), "\"steps\": 3", "\"steps\": 9"));
  const Outcome outcome = workplace_.run("train job.json --device cpu --profile 10:2 -o run");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors,
              HasSubstr("no window: the job's begins with step 10, and the run has 9"));
  const Outcome last = workplace_.run("train job.json --device cpu --profile 9:2 -o run");
  EXPECT_EQ(last.errors.find("no window"), std::string::npos) << last.errors;
}

TEST_F(Profile, StaysInFilesWithJson) {
  workplace_.write("job.json", replaced(tiny_job(), "\"steps\": 3", "\"steps\": 9"));
  const Outcome outcome = workplace_.run("train job.json --device cpu --json --profile 2:2 -o run");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("profiled steps"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(workplace_.has("run/profiles/2-3/comparison.txt"));
  EXPECT_TRUE(workplace_.has("run/comparison.json"));
}

}  // namespace
}  // namespace shardscope::testing
