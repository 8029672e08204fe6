#include "gui/data/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <future>

#include "core/base/error.h"

namespace shardscope::gui {
namespace {

using std::chrono::milliseconds;

ChildResult run_shell(const std::string& script, milliseconds patience = milliseconds{60'000},
                      std::stop_token stop = {}) {
  return run_child({.program = "/bin/sh", .arguments = {"-c", script}, .patience = patience}, stop);
}

/// No child of this process is left, not even as a zombie.
bool has_no_child() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

TEST(ChildProcess, SaysHowItEndedAndItsLastLine) {
  const ChildResult result = run_shell("echo first >&2; echo the reason >&2; exit 3");
  EXPECT_EQ(result.end, ChildEnd::exited);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.last_words, "the reason");
  EXPECT_TRUE(has_no_child());
}

TEST(ChildProcess, KilledByASignalIsTold) {
  const ChildResult result = run_shell("kill -9 $$");
  EXPECT_EQ(result.end, ChildEnd::killed);
  EXPECT_EQ(result.code, 9);
}

// More than a pipe holds: a child that nobody listened to would wait for ever.
TEST(ChildProcess, ThatSaysAMegabyteIsHeardToTheEnd) {
  const ChildResult result = run_shell(
      "i=0; while [ $i -lt 16000 ]; do echo "
      "0123456789012345678901234567890123456789012345678901234567890123 >&2; "
      "i=$((i+1)); done; echo done >&2");
  EXPECT_EQ(result.end, ChildEnd::exited);
  EXPECT_EQ(result.last_words, "done");
}

TEST(ChildProcess, OnAStopRequestIsGone) {
  std::stop_source stop;
  auto result = std::async(std::launch::async, [token = stop.get_token()] {
    return run_shell("sleep 600", milliseconds{600'000}, token);
  });
  stop.request_stop();
  EXPECT_EQ(result.get().end, ChildEnd::stopped);
  EXPECT_TRUE(has_no_child());
}

// It does not listen to SIGTERM, and is made to end.
TEST(ChildProcess, ThatDoesNotWantToEndIsMadeTo) {
  const ChildResult result = run_shell("trap '' TERM; while :; do sleep 1; done", milliseconds{50});
  EXPECT_EQ(result.end, ChildEnd::out_of_patience);
  EXPECT_TRUE(has_no_child());
}

TEST(ChildProcess, ThatIsNotThereIsAnError) {
  EXPECT_THROW(run_child({.program = "/nowhere/at/all"}, {}), Error);
}

TEST(ShardscopeProgram, IsWhatTheEnvironmentNamesOrNothing) {
  ::setenv("SHARDSCOPE", "/bin/sh", 1);
  EXPECT_EQ(shardscope_program(), "/bin/sh");
  ::setenv("SHARDSCOPE", "/nowhere/shardscope", 1);
  EXPECT_EQ(shardscope_program(), std::nullopt);
  ::unsetenv("SHARDSCOPE");
}

}  // namespace
}  // namespace shardscope::gui
