#include "backend/launch/launcher.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Launcher : public ::testing::Test {
 protected:
  Launcher() {
    std::string pattern = ::testing::TempDir() + "launcher.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Launcher() override { std::filesystem::remove_all(folder_); }

  LaunchPlan plan(const std::string& letters) const {
    return {.ranks = static_cast<int>(letters.size()),
            .arguments = {"launched_rank", letters},
            .program = LAUNCHED_RANK,
            .log_folder = folder_,
            .grace = milliseconds(500)};
  }
  std::string log(int rank) const {
    return text_of_file(folder_ / ("log." + std::to_string(rank) + ".txt"));
  }
  Error failure_of(const std::string& letters) const {
    try {
      launch(plan(letters));
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error({});
  }

  /// A launcher in a process of its own.
  pid_t start_launcher(const std::string& letters) const {
    const pid_t id = ::fork();
    if (id != 0) return id;
    std::signal(SIGINT, SIG_DFL);  // ignored where the tests run in the background
    ::execl(LAUNCHING_PROGRAM, LAUNCHING_PROGRAM, LAUNCHED_RANK, letters.c_str(), folder_.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(99);
  }
  void wait_for_log(int rank, const std::string& text) const {
    for (int i = 0; i < 6000; ++i) {
      if (log(rank).find(text) != std::string::npos) return;
      std::this_thread::sleep_for(milliseconds(10));
    }
    FAIL() << "log " << rank << " is: " << log(rank);
  }
  static int exit_code_of(pid_t id) {
    int status = 0;
    ::waitpid(id, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::filesystem::path folder_;
};

TEST_F(Launcher, ReturnsWhenAllRanksAreDone) { EXPECT_EQ(launch(plan("ooo")), ExitCode::done); }

TEST_F(Launcher, HostsTheStoreWhereTheRanksMeet) {
  EXPECT_EQ(launch(plan("sss")), ExitCode::done);
  EXPECT_EQ(log(0), "met\n");
}

TEST_F(Launcher, FilesWhatRanksWrite) {
  EXPECT_THROW(launch(plan("oe")), Error);
  // Rank 0's standard output is the launcher's, the others' goes to their logs.
  EXPECT_EQ(log(0), "");
  EXPECT_EQ(log(1), "output of rank 1\nstep 1\ndisk full\n");
}

TEST_F(Launcher, GivesTheFailingRanksOwnCodeAndLastLine) {
  const Error error = failure_of("we");
  EXPECT_EQ(error.code(), ExitCode::outside);
  EXPECT_THAT(error.what(), StartsWith("rank 1: exited with code 3; its last line: disk full"));
  EXPECT_THAT(error.what(), HasSubstr("log.1.txt"));
}

TEST_F(Launcher, NamesTheSignalThatKilledARank) {
  const Error error = failure_of("wwk");
  EXPECT_EQ(error.code(), ExitCode::rank_lost);
  EXPECT_THAT(error.what(), AllOf(StartsWith("rank 2: was killed by signal 9 (Killed)"),
                                  HasSubstr("before the end")));
}

TEST_F(Launcher, BlamesTheCauseAndNotWhoLostAPeer) {
  // Rank 0 fails first, but only because it lost rank 1.
  EXPECT_THAT(failure_of("lk").what(), StartsWith("rank 1: was killed"));
}

TEST_F(Launcher, KillsARankThatIsDeafToSigterm) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(failure_of("hd").what(), StartsWith("rank 1: exited with code 3"));
  // 0.5 s of grace for rank 0, which uses all of it.
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(500));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

TEST_F(Launcher, SaysWhenTheProgramCannotBeStarted) {
  LaunchPlan wrong = plan("o");
  wrong.program = "/nowhere/program";
  try {
    launch(wrong);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::outside);
    EXPECT_THAT(error.what(), HasSubstr("could not be started"));
  }
}

TEST_F(Launcher, RefusesNoRanks) { EXPECT_THROW(launch({.ranks = 0, .arguments = {}}), Error); }

TEST_F(Launcher, PassesAnInterruptOnAndWaits) {
  const pid_t launcher = start_launcher("ww");
  wait_for_log(0, "waiting");
  wait_for_log(1, "waiting");
  ::kill(launcher, SIGINT);
  EXPECT_EQ(exit_code_of(launcher), 130);
}

TEST_F(Launcher, TakesTheJobDownAtTheSecondInterrupt) {
  const pid_t launcher = start_launcher("hh");
  wait_for_log(0, "process");
  wait_for_log(1, "process");
  ::kill(launcher, SIGINT);
  wait_for_log(0, "told");
  ::kill(launcher, SIGINT);
  EXPECT_EQ(exit_code_of(launcher), 130);
}

TEST_F(Launcher, LeavesNoRanksWhenItIsKilled) {
  const pid_t launcher = start_launcher("hh");
  wait_for_log(0, "process");
  wait_for_log(1, "process");
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(exit_code_of(launcher), -SIGKILL);
  for (const int rank : {0, 1}) {
    const std::string text = log(rank);
    const pid_t id = std::stoi(text.substr(text.find("process ") + 8));
    bool gone = false;
    for (int i = 0; i < 6000 && !gone; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      // Nobody may collect an orphan here: a dead one counts as gone.
      const std::string state = text_of_file("/proc/" + std::to_string(id) + "/stat");
      gone = state.empty() || state.find(") Z ") != std::string::npos;
    }
    EXPECT_TRUE(gone) << "rank " << rank;
  }
}

}  // namespace
}  // namespace shardscope
