// What transformers' Trainer would ignore, refuse or do differently from what TrainingArguments
// seem to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/environment.h"
#include "core/config/values/finding.h"

namespace shardscope {

/// What is known of the run beside the file.
struct TrainerRun {
  std::optional<std::int64_t> model_elements;          ///< parameters of the model
  std::vector<std::string_view> more_optimizers = {};  ///< that the tool around the Trainer has
  std::vector<std::string> model_classes;  ///< class names of its modules; empty: not known
  ReadFile read_file;  ///< for the files that fsdp_config and deepspeed name; empty: none is read
};

/// Findings about a JSON file of TrainingArguments keys ({"fsdp": "full_shard", "fsdp_config":
/// {...}, "bf16": true}), in the order of its lines; a fsdp_config or deepspeed file that it names
/// is checked by name of its own. Bad input is a finding too. Source: transformers 5.23.0.
std::vector<Finding> lint_training_arguments(std::string_view text, const std::string& file,
                                             const TrainerRun& run = {});

/// The same about a file for fsdp_config alone, taken with fsdp=true.
std::vector<Finding> lint_fsdp_config(std::string_view text, const std::string& file,
                                      const TrainerRun& run = {});

}  // namespace shardscope
