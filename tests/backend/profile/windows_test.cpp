// Windows of real training jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
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
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"
#include "traces/analysis.h"
#include "traces/chrome_reader.h"

namespace shardscope {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

  /// Waited for.
  static WindowAnswer answer_to(const std::string& request, const Job& job) {
    while (true) {
      const std::optional<JobNotice> notice = read_notice(job.output);
      if (const auto* answer = notice ? notice->answer_to(request) : nullptr) return *answer;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
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
  Job one = profiled_job("fifty", {.start = 1, .steps = 1, .every = 1});
  run_forked(one);
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
  Job one = profiled_job("signal", {.start = 0, .steps = 4, .every = 0});
  one.steps = 400;
  using shardscope::testing::run_ranks;
  const auto outcomes = run_ranks(one.ranks, [&](const Environment& environment) {
    std::thread asks;
    if (environment.rank == 1) {
      asks = std::thread([&] {
        while (!read_notice(one.output)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        kill(getpid(), SIGUSR1);
      });
    }
    const ExitCode code = train(one, environment, {.quiet = true});
    if (asks.joinable()) asks.join();
    return code;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 0) << outcome.message;
  ASSERT_THAT(windows_of(one), SizeIs(1));
  const std::string window = windows_of(one).front();
  EXPECT_THAT(step_windows(trace_of(one, window, 0)), SizeIs(4));
  EXPECT_THAT(step_windows(trace_of(one, window, 1)), SizeIs(4));
  EXPECT_FALSE(read_notice(one.output)) << "it is gone with the job";
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
  Job one = profiled_job("stopped", {.start = 1, .steps = 1000, .every = 0});
  one.steps = 1000;
  using shardscope::testing::run_ranks;
  run_ranks(one.ranks, [&](const Environment& environment) {
    std::thread asks;
    if (environment.rank == 0) {
      asks = std::thread([&] {
        while (metrics(one).size() < 6) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        kill(getpid(), SIGINT);
      });
    }
    const ExitCode code = train(one, environment, {.quiet = true});
    if (asks.joinable()) asks.join();
    return code;
  });
  const auto steps = static_cast<int>(metrics(one).size() / 2);
  ASSERT_LT(steps, 1000);
  const std::string window = "1-" + std::to_string(steps);
  ASSERT_THAT(windows_of(one), ElementsAre(window));
  const Trace trace = trace_of(one, window, 1);
  EXPECT_THAT(step_windows(trace), SizeIs(steps));
  EXPECT_THAT(trace.recording.notes,
              Contains(std::to_string(steps) + " of 1000 steps, because the run was stopped"));
}

TEST_F(WindowsTest, WhatIsAskedForInsideOfOneIsNotFollowed) {
  Job one = profiled_job("overlap", {.start = 2, .steps = 900, .every = 0});
  one.steps = 1000;
  using shardscope::testing::run_ranks;
  const auto outcomes = run_ranks(one.ranks, [&](const Environment& environment) {
    std::thread asks;
    if (environment.rank == 0) {
      asks = std::thread([&] {
        while (metrics(one).size() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_TRUE(leave_request(one.output, {.id = "mine", .steps = 3}));
        kill(getpid(), SIGUSR1);
        EXPECT_EQ(answer_to("mine", one).reason, "steps 2-901 are being profiled");
        kill(getpid(), SIGINT);
      });
    }
    const ExitCode code = train(one, environment, {.quiet = true});
    if (asks.joinable()) asks.join();
    return ::testing::Test::HasFailure() ? ExitCode::no : code;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 130) << outcome.message;
  EXPECT_THAT(windows_of(one), SizeIs(1));
}

TEST_F(WindowsTest, WhoAsksGetsAWindowOfHisOwnOrHearsWhyNot) {
  Job one = profiled_job("asked", {.start = 0, .steps = 4, .every = 0});
  one.steps = 100000;
  using shardscope::testing::run_ranks;
  const auto outcomes = run_ranks(one.ranks, [&](const Environment& environment) {
    std::thread asks;
    if (environment.rank == 0) {
      asks = std::thread([&] {
        while (metrics(one).size() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        int windows = 0;
        for (int i = 0; i < 40; ++i) {
          const std::string first = "first " + std::to_string(i);
          const std::string second = "second " + std::to_string(i);
          EXPECT_TRUE(leave_request(one.output, {.id = first, .steps = 2}));
          kill(getpid(), SIGUSR1);
          // The moment the first one is taken: before its window opens.
          while (std::filesystem::exists(one.output / "profile.request")) std::this_thread::yield();
          if (i % 2 == 1) kill(getpid(), SIGUSR1);
          EXPECT_TRUE(leave_request(one.output, {.id = second, .steps = 3}));
          kill(getpid(), SIGUSR1);
          for (const auto& [id, steps] : {std::pair(first, 2), std::pair(second, 3)}) {
            const WindowAnswer answer = answer_to(id, one);
            const bool is_refused = answer.state == WindowState::refused;
            if (!is_refused) {
              ++windows;
              EXPECT_EQ(answer.steps.last - answer.steps.first + 1, steps) << id;
            }
            EXPECT_EQ(answer.reason.empty(), !is_refused) << id;
          }
        }
        EXPECT_GE(windows, 10);
        kill(getpid(), SIGINT);
      });
    }
    const ExitCode code = train(one, environment, {.quiet = true});
    if (asks.joinable()) asks.join();
    return ::testing::Test::HasFailure() ? ExitCode::no : code;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 130) << outcome.message;
}

TEST_F(WindowsTest, ATraceThatCannotBeWrittenEndsNothing) {
  Job one = profiled_job("unwritten", {.start = 49, .steps = 2, .every = 0});
  one.timeout_s = 10;
  const std::filesystem::path window = one.output / "profiles" / "49-50";
  std::filesystem::create_directories(window / "trace.1.json.gz" / "in_the_way");
  const auto begin = std::chrono::steady_clock::now();
  run_forked(one);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8))
      << "nobody waits for what will not come";
  EXPECT_TRUE(std::filesystem::exists(one.output / "trace.1.json.gz")) << "that of the run";
  const JsonValue comparison =
      JsonValue::read_file(window / "comparison.json", DuplicateKeys::refuse, 1 << 24);
  const JsonValue missing = comparison.at("missing");
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].at("rank").integer(0), 1);
  EXPECT_THAT(missing[0].at("reason").string(), HasSubstr("trace.1.json.gz"));
  EXPECT_THAT(read_whole(window / "comparison.txt"), HasSubstr("  no trace of rank 1: "));
}

TEST_F(WindowsTest, AFolderThatCannotBeMadeEndsNothing) {
  Job one = profiled_job("no_folder", {.start = 49, .steps = 2, .every = 0});
  one.timeout_s = 10;
  std::filesystem::create_directories(one.output);
  write_atomically(one.output / "profiles", "in the way");
  using shardscope::testing::run_ranks;
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
  Job one = profiled_job("failed", {});
  one.steps = 100000;
  std::filesystem::create_directories(one.output);
  write_atomically(one.output / "profiles", "in the way");
  using shardscope::testing::run_ranks;
  const auto outcomes = run_ranks(one.ranks, [&](const Environment& environment) {
    std::thread asks;
    if (environment.rank == 0) {
      asks = std::thread([&] {
        while (metrics(one).size() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_TRUE(leave_request(one.output, {.id = "mine", .steps = 2}));
        kill(getpid(), SIGUSR1);
        while (answer_to("mine", one).state != WindowState::failed)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_THAT(answer_to("mine", one).reason, HasSubstr("profiles"));
        kill(getpid(), SIGINT);
      });
    }
    const ExitCode code = train(one, environment, {.quiet = true});
    if (asks.joinable()) asks.join();
    return ::testing::Test::HasFailure() ? ExitCode::no : code;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 130) << outcome.message;
}

TEST_F(WindowsTest, WithoutAnyThereIsNoFolder) {
  const Job one = profiled_job("none", {});
  run_forked(one);
  EXPECT_THAT(windows_of(one), IsEmpty());
}

TEST(CommonClock, IsStillThereForARankThatIsSlowToAsk) {
  using shardscope::testing::run_ranks;
  const auto outcomes = run_ranks(2, [&](const Environment& environment) {
    const std::chrono::seconds deadline(20);
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
  using shardscope::testing::run_ranks;
  const auto outcomes = run_ranks(2, [&](const Environment& environment) {
    Environment place = environment;
    place.local_rank = 0;
    place.local_world = 1;
    const std::chrono::seconds deadline(20);
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
