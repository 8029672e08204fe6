#include "tests/backend/train/running_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "backend/base/time_limit.h"
#include "backend/train/train.h"

namespace shardscope::testing {

bool RunningJob::until(const std::function<bool()>& holds,
                       std::chrono::milliseconds between_looks) const {
  const TimeLimit limit(std::chrono::minutes(2));
  while (!holds()) {
    if (is_over_.stop_requested() || limit.passed()) return holds();
    std::this_thread::sleep_for(between_looks);
  }
  return true;
}

void RunningJob::end_by(int signal) const {
  if (!is_over_.stop_requested()) ::kill(::getpid(), signal);
}

Job endless(Job job) {
  job.steps = 10'000'000;
  job.learning_rate = {.kind = LearningRate::Kind::constant, .peak = 1e-4};
  return job;
}

std::vector<RankOutcome> train_beside(const Job& job, int rank,
                                      const std::function<void(const RunningJob&)>& beside) {
  return run_ranks(job.ranks, [&](const Environment& environment) {
    std::jthread thread;
    if (environment.rank == rank)
      thread = std::jthread([&](std::stop_token over) { beside(RunningJob(std::move(over))); });
    const ExitCode code =
        train(job, environment, {.quiet = true, .longest_stall = std::chrono::minutes(1)});
    thread = {};
    return ::testing::Test::HasFailure() ? ExitCode::no : code;
  });
}

}  // namespace shardscope::testing
