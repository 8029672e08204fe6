// Jobs small enough for a test, run in real processes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/native/job.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {

class TrainingFixture : public ::testing::Test {
 protected:
  /// 50 steps of a global batch of 4 sequences in the checking mode, with clipping that really
  /// clips. `output` names the run folder.
  Job job(std::string_view config, int ranks, ShardingStrategy sharding,
          const std::string& output) const;

  /// Trains in forked processes over shared memory, and expects them to end well. Gives the
  /// metrics.
  static std::vector<double> run_forked(const Job& job);
  /// Losses and gradient norms, step by step, as they stand in metrics.jsonl.
  static std::vector<double> metrics(const Job& job);

  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

}  // namespace shardscope
