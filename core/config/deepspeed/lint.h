// What DeepSpeed, accelerate and the Trainer would ignore, refuse or do differently from what a
// DeepSpeed configuration seems to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/finding.h"

namespace shardscope {

/// What is known of the run beside the file.
struct DeepSpeedRun {
  std::optional<std::int64_t> world;           ///< ranks
  std::optional<std::int64_t> ranks_per_node;  ///< GPUs of one node
  std::optional<std::int64_t> model_elements;  ///< parameters of the model
  /// deepspeed.initialize gets the file as it is: neither accelerate nor the Trainer fills "auto"
  /// in.
  bool plain = false;
};

/// Findings in the order of the file's lines; `file` is its name for them. Bad input is a finding
/// too, so that nothing is thrown for it. Rules that need the run apply where it is known.
/// Example: {"zero_optimization": {"stage": 3, "reduce_bucket_size": 209715200}} is told that
/// bucket sizes count elements.
std::vector<Finding> lint_deepspeed_config(std::string_view text, const std::string& file,
                                           const DeepSpeedRun& run = {});

}  // namespace shardscope
