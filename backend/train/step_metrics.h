// What one training step came to.
#pragma once

#include <cstdint>
#include <string>

namespace shardscope {

struct StepMetrics {
  std::int64_t step = 0;     ///< from 1
  double loss = 0;           ///< mean over ranks of their means over tokens
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  double elapsed_s = 0;     ///< since the first step began
  double tokens_per_s = 0;  ///< of the whole job, this step
  bool skipped = false;     ///< loss or norm was not finite, and the step changed nothing
};

/// The line of metrics.jsonl (docs/cli.md): loss, norm and learning rate with 17 digits, so that
/// they read back bit for bit; null for what is not finite.
std::string to_json(const StepMetrics& metrics);

}  // namespace shardscope
