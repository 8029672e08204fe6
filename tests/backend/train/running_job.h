// What is done to a job while it trains.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <stop_token>
#include <utility>
#include <vector>

#include "core/native/job.h"
#include "tests/backend/comm/forked_ranks.h"

namespace shardscope::testing {

/// A job that this process trains a rank of, seen from a thread beside it.
class RunningJob {
 public:
  explicit RunningJob(std::stop_token is_over) : is_over_(std::move(is_over)) {}

  /// Waits until `holds`; false where the job is over before, or minutes have passed.
  bool until(const std::function<bool()>& holds,
             std::chrono::milliseconds between_looks = std::chrono::milliseconds(1)) const;
  /// To this rank. The last thing that is done to the job.
  void end_by(int signal = SIGINT) const;

 private:
  std::stop_token is_over_;
};

/// A job that takes longer than any test.
Job endless(Job job);

/// Trains in forked processes; on a thread of `rank`'s, `beside` runs meanwhile. No window is left
/// out, however slow the machine. A rank in which expectations fail ends with ExitCode::no.
std::vector<RankOutcome> train_beside(const Job& job, int rank,
                                      const std::function<void(const RunningJob&)>& beside);

}  // namespace shardscope::testing
