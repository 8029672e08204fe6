// Windows of real training jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "backend/profile/job_notice.h"
#include "backend/profile/rank_clock.h"
#include "backend/profile/window_request.h"
#include "backend/train/train.h"
#include "backend/watch/meeting.h"
#include "core/format/atomic_file.h"
#include "core/format/json_reader.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/backend/train/running_job.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"
#include "traces/analysis.h"
#include "traces/chrome_reader.h"

namespace shardscope {
namespace {

using shardscope::testing::endless;
using shardscope::testing::RankOutcome;
using shardscope::testing::run_ranks;
using shardscope::testing::RunningJob;
using shardscope::testing::train_beside;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const RankOutcome stopped{.exit_code = 130, .signal = 0, .message = {}};

/// Steps; more than any test takes.
constexpr int longest_window = 100'000;

bool listens_to_profile_signal() {
  struct sigaction action {};
  return sigaction(SIGUSR1, nullptr, &action) == 0 && action.sa_handler != SIG_DFL;
}

class WindowsTest : public TrainingFixture {
 protected:
  Job profiled_job(const std::string& output, const ProfileWindows& windows) const {
    Job one = job(tiny_gpt2, 2, ShardingStrategy::full_shard, output);
    one.save_model = false;
    one.profile = windows;
    return one;
  }

  /// Names of the run's windows, sorted.
  static std::vector<std::string> windows_of(const Job& job) {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(job.output / "profiles", none))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  static std::optional<WindowAnswer> answer_yet(const std::string& request, const Job& job) {
    const std::optional<JobNotice> notice = read_notice(job.output);
    const WindowAnswer* answer = notice ? notice->answer_to(request) : nullptr;
    return answer ? std::optional(*answer) : std::nullopt;
  }
  /// Waited for; that of no window where the job is over before.
  static WindowAnswer answer_to(const std::string& request, const Job& job,
                                const RunningJob& running) {
    EXPECT_TRUE(running.until([&] { return answer_yet(request, job).has_value(); })) << request;
    return answer_yet(request, job).value_or(WindowAnswer{});
  }
  /// Of both ranks.
  static bool has_steps(const Job& job, std::size_t steps) {
    return metrics(job).size() >= 2 * steps;
  }

  static Trace trace_of(const Job& job, const std::string& window, int rank) {
    return read_chrome_trace(job.output / "profiles" / window /
                             ("trace." + std::to_string(rank) + ".json.gz"))
        .trace;
  }
};

TEST_F(WindowsTest, LeaveLossesAndNormsAsTheyAreToTheLastBit) {
  const auto without = run_forked(profiled_job("without", {}));
  const auto with = run_forked(profiled_job("with", {.start = 4, .steps = 3, .every = 5}));
  ASSERT_THAT(without, SizeIs(100));
  EXPECT_EQ(without, with);
}

TEST_F(WindowsTest, HoldTheirStepsOnEveryRank) {
  const Job one = profiled_job("one", {.start = 7, .steps = 3, .every = 0});
  run_forked(one);
  ASSERT_THAT(windows_of(one), ElementsAre("7-9"));
  for (const int rank : {0, 1}) {
    const Trace trace = trace_of(one, "7-9", rank);
    EXPECT_EQ(trace.rank, rank);
    std::vector<int> steps;
    for (const StepWindow& step : step_windows(trace)) steps.push_back(step.step);
    EXPECT_THAT(steps, ElementsAre(7, 8, 9));
  }
  EXPECT_TRUE(std::filesystem::exists(one.output / "profiles" / "7-9" / "comparison.txt"));
}

TEST_F(WindowsTest, RanksOfAHostAreOnOneClock) {
  const Job one = profiled_job("clock", {.start = 7, .steps = 3, .every = 0});
  run_forked(one);
  const Trace first = trace_of(one, "7-9", 0), second = trace_of(one, "7-9", 1);
  EXPECT_EQ(first.recording.clock, second.recording.clock);
  EXPECT_EQ(first.recording.clock_residual, Duration{});
  // A gather ends on neither rank before it began on the other.
  for (const Span& span : first.spans) {
    if (span.span_class != SpanClass::communication) continue;
    for (const Span& other : second.spans) {
      if (other.operation != span.operation || other.step != span.step) continue;
      EXPECT_GE(first.base_ns + span.end().ns, second.base_ns + other.start.ns);
      EXPECT_GE(second.base_ns + other.end().ns, first.base_ns + span.start.ns);
    }
  }
}

TEST_F(WindowsTest, FiftyOfThemComeOutWhole) {
  const Job one = profiled_job("fifty", {.start = 1, .steps = 1, .every = 1});
  const auto outcomes = run_ranks(one.ranks, [&](const Environment& environment) {
    return train(one, environment, {.quiet = true, .longest_stall = std::chrono::minutes(1)});
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, RankOutcome{});
  EXPECT_THAT(windows_of(one), SizeIs(50));
  for (const std::string& window : windows_of(one)) {
    const Trace trace = trace_of(one, window, 1);
    EXPECT_THAT(step_windows(trace), SizeIs(1)) << window;
    EXPECT_TRUE(std::filesystem::exists(one.output / "profiles" / window / "comparison.json"));
  }
}

TEST_F(WindowsTest, TheLastStepMayBeOne) {
  const Job one = profiled_job("last", {.start = 50, .steps = 5, .every = 0});
  run_forked(one);
  EXPECT_THAT(windows_of(one), ElementsAre("50-50"));
}

TEST_F(WindowsTest, ASignalToAnyRankStartsOneOnAll) {
  const Job one = endless(profiled_job("signal", {.start = 0, .steps = 4, .every = 0}));
  const auto outcomes = train_beside(one, 1, [&](const RunningJob& running) {
    EXPECT_TRUE(running.until([&] { return read_notice(one.output).has_value(); }));
    kill(getpid(), SIGUSR1);
    EXPECT_TRUE(running.until([&] { return !windows_of(one).empty(); }));
    running.end_by(SIGINT);
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, stopped);
  ASSERT_THAT(windows_of(one), SizeIs(1));
  const std::string window = windows_of(one).front();
  EXPECT_THAT(step_windows(trace_of(one, window, 0)), SizeIs(4));
  EXPECT_THAT(step_windows(trace_of(one, window, 1)), SizeIs(4));
  EXPECT_FALSE(read_notice(one.output)) << "it is gone with the job";
}

TEST_F(WindowsTest, ASignalBeforeTheRanksMeetStartsOne) {
  const Job one = profiled_job("early", {.start = 0, .steps = 4, .every = 0});
  const std::filesystem::path is_sent = folder().path() / "is_sent";
  const auto outcomes = run_ranks(one.ranks, [&](const Environment& environment) {
    std::jthread asks;
    if (environment.rank == 1) {
      asks = std::jthread([&](const std::stop_token& is_over) {
        RunningJob(is_over).until(listens_to_profile_signal);
        raise(SIGUSR1);
        write_atomically(is_sent, "");
      });
    } else {
      // Rank 0 comes after the signal, and without it there is no first step.
      RunningJob({}).until([&] { return std::filesystem::exists(is_sent); });
    }
    return train(one, environment, {.quiet = true});
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, RankOutcome{});
  EXPECT_THAT(windows_of(one), ElementsAre("2-5"));
}

TEST_F(WindowsTest, ARunOfOneRankHasThemToo) {
  Job one = profiled_job("single", {.start = 7, .steps = 2, .every = 0});
  one.ranks = 1;
  one.strategy.sharding = ShardingStrategy::no_shard;
  run_forked(one);
  ASSERT_THAT(windows_of(one), ElementsAre("7-8"));
  EXPECT_THAT(step_windows(trace_of(one, "7-8", 0)), SizeIs(2));
}

TEST_F(WindowsTest, AStopClosesTheOneThatIsOpen) {
  const Job one =
      endless(profiled_job("stopped", {.start = 1, .steps = longest_window, .every = 0}));
  train_beside(one, 0, [&](const RunningJob& running) {
    EXPECT_TRUE(running.until([&] { return has_steps(one, 3); }));
    running.end_by(SIGINT);
  });
  const auto steps = static_cast<int>(metrics(one).size() / 2);
  ASSERT_LT(steps, longest_window);
  const std::string window = "1-" + std::to_string(steps);
  ASSERT_THAT(windows_of(one), ElementsAre(window));
  const Trace trace = trace_of(one, window, 1);
  EXPECT_THAT(step_windows(trace), SizeIs(steps));
  EXPECT_THAT(trace.recording.notes,
              Contains(std::to_string(steps) + " of 100000 steps, because the run was stopped"));
}

TEST_F(WindowsTest, WhatIsAskedForInsideOfOneIsNotFollowed) {
  const Job one =
      endless(profiled_job("overlap", {.start = 2, .steps = longest_window, .every = 0}));
  const auto outcomes = train_beside(one, 0, [&](const RunningJob& running) {
    EXPECT_TRUE(running.until([&] { return has_steps(one, 10); }));
    EXPECT_TRUE(leave_request(one.output, {.id = "mine", .steps = 3}));
    kill(getpid(), SIGUSR1);
    EXPECT_EQ(answer_to("mine", one, running).reason, "steps 2-100001 are being profiled");
    running.end_by(SIGINT);
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, stopped);
  EXPECT_THAT(windows_of(one), SizeIs(1));
}

TEST_F(WindowsTest, WhoAsksGetsAWindowOfHisOwnOrHearsWhyNot) {
  const Job one = endless(profiled_job("asked", {.start = 0, .steps = 4, .every = 0}));
  const auto ask_twice = [&](int round, const RunningJob& running) {
    const std::string first = "first " + std::to_string(round);
    const std::string second = "second " + std::to_string(round);
    EXPECT_TRUE(leave_request(one.output, {.id = first, .steps = 2}));
    kill(getpid(), SIGUSR1);
    // The moment the first one is taken: before its window opens.
    const auto is_taken = [&] { return !std::filesystem::exists(one.output / "profile.request"); };
    EXPECT_TRUE(running.until(is_taken, std::chrono::milliseconds(0)));
    if (round % 2 == 1) kill(getpid(), SIGUSR1);
    EXPECT_TRUE(leave_request(one.output, {.id = second, .steps = 3}));
    kill(getpid(), SIGUSR1);
    int windows = 0;
    for (const auto& [id, steps] : {std::pair(first, 2), std::pair(second, 3)}) {
      const WindowAnswer answer = answer_to(id, one, running);
      const bool is_refused = answer.state == WindowState::refused;
      EXPECT_EQ(answer.reason.empty(), !is_refused) << id;
      if (is_refused) continue;
      ++windows;
      EXPECT_EQ(answer.steps.last - answer.steps.first + 1, steps) << id;
    }
    return windows;
  };
  const auto outcomes = train_beside(one, 0, [&](const RunningJob& running) {
    EXPECT_TRUE(running.until([&] { return has_steps(one, 10); }));
    int windows = 0;
    for (int round = 0; round < 40 && !HasFailure(); ++round) windows += ask_twice(round, running);
    EXPECT_GE(windows, 10);
    running.end_by(SIGINT);
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, stopped);
}

TEST_F(WindowsTest, ATraceThatCannotBeWrittenEndsNothing) {
  const Job one = profiled_job("unwritten", {.start = 49, .steps = 2, .every = 0});
  const std::filesystem::path window = one.output / "profiles" / "49-50";
  std::filesystem::create_directories(window / "trace.1.json.gz" / "in_the_way");
  run_forked(one);
  EXPECT_TRUE(std::filesystem::exists(one.output / "trace.1.json.gz")) << "that of the run";
  const JsonValue comparison =
      JsonValue::read_file(window / "comparison.json", DuplicateKeys::refuse, 1 << 24);
  const JsonValue missing = comparison.at("missing");
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].at("rank").integer(0), 1);
  EXPECT_THAT(missing[0].at("reason").string(), HasSubstr("trace.1.json.gz"))
      << "nobody waits for what will not come";
  EXPECT_THAT(read_whole(window / "comparison.txt"), HasSubstr("  no trace of rank 1: "));
}

TEST_F(WindowsTest, AFolderThatCannotBeMadeEndsNothing) {
  const Job one = profiled_job("no_folder", {.start = 49, .steps = 2, .every = 0});
  std::filesystem::create_directories(one.output);
  write_atomically(one.output / "profiles", "in the way");
  ::testing::internal::CaptureStderr();
  const auto outcomes = run_ranks(one.ranks, [&](const Environment& environment) {
    return train(one, environment, {.results_in_files = true});
  });
  const std::string told = ::testing::internal::GetCapturedStderr();
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 0) << outcome.message;
  EXPECT_THAT(metrics(one), SizeIs(100));
  EXPECT_THAT(told, HasSubstr("rank 0: the profile of steps 49-50 is not complete"));
  EXPECT_THAT(told, HasSubstr("rank 1: no trace of steps 49-50"));
}

TEST_F(WindowsTest, WhoAskedHearsThatResultsFailed) {
  const Job one = endless(profiled_job("failed", {}));
  std::filesystem::create_directories(one.output);
  write_atomically(one.output / "profiles", "in the way");
  const auto outcomes = train_beside(one, 0, [&](const RunningJob& running) {
    EXPECT_TRUE(running.until([&] { return has_steps(one, 10); }));
    EXPECT_TRUE(leave_request(one.output, {.id = "mine", .steps = 2}));
    kill(getpid(), SIGUSR1);
    const auto is_failed = [&](const auto& answer) {
      return answer && answer->state == WindowState::failed;
    };
    EXPECT_TRUE(running.until([&] { return is_failed(answer_yet("mine", one)); }));
    EXPECT_THAT(answer_to("mine", one, running).reason, HasSubstr("profiles"));
    running.end_by(SIGINT);
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, stopped);
}

TEST_F(WindowsTest, WithoutAnyThereIsNoFolder) {
  const Job one = profiled_job("none", {});
  run_forked(one);
  EXPECT_THAT(windows_of(one), IsEmpty());
}

TEST(CommonClock, IsStillThereForARankThatIsSlowToAsk) {
  const auto outcomes = run_ranks(2, [&](const Environment& environment) {
    const std::chrono::minutes deadline(2);
    Meeting meeting(environment, deadline);
    const auto clock = [&](std::int64_t number) {
      return common_clock(environment, &meeting.store(), {.number = number, .deadline = deadline});
    };
    if (environment.rank == 1) meeting.store().get("both are said");
    clock(1);
    clock(2);
    if (environment.rank == 0) meeting.store().set("both are said", "");
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 0) << outcome.message;
}

TEST(CommonClock, OfHostsIsSetByRoundTripsToTheStore) {
  // Two ranks that say they are alone on their hosts: what they find must agree, for they have one
  // clock.
  const auto outcomes = run_ranks(2, [&](const Environment& environment) {
    Environment place = environment;
    place.local_rank = 0;
    place.local_world = 1;
    const std::chrono::minutes deadline(2);
    Meeting meeting(place, deadline);
    const CommonClock clock =
        common_clock(place, &meeting.store(), {.number = 1, .deadline = deadline});
    const ClockOffset own = clock.unix_minus_monotonic;
    meeting.store().set("found/" + std::to_string(place.rank),
                        std::to_string(own.offset_ns) + " " + std::to_string(own.residual.ns));
    std::istringstream said(meeting.store().get("found/" + std::to_string(1 - place.rank)));
    ClockOffset other;
    said >> other.offset_ns >> other.residual.ns;
    const bool agree =
        std::abs(other.offset_ns - own.offset_ns) <= (own.residual + other.residual).ns;
    return agree && own.residual > Duration{} ? ExitCode::done : ExitCode::no;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 0) << outcome.message;
}

}  // namespace
}  // namespace shardscope
