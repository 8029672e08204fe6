// The rules of TrainingArguments' lint by subject.
#pragma once

#include <string>

#include "core/config/trainer/training_args_lint.h"
#include "core/config/values/config_value.h"
#include "core/config/values/finding_list.h"

namespace shardscope {

/// A fsdp_config and where it stands.
struct FsdpConfigLint {
  const ConfigValue& config;  ///< a dict as written, with or without the prefix fsdp_
  const TrainerRun& run;
  FindingList& findings;
  std::string path;  ///< "fsdp_config", or "" in a file of its own

  /// The key in either spelling; the later one where both stand.
  const ConfigValue::Entry* find(std::string_view key) const;
  std::int64_t version() const;  ///< 2 where it is missing or no number
};

void lint_fsdp_keys(const FsdpConfigLint& lint);    ///< unknown, of the other version, twice
void lint_fsdp_values(const FsdpConfigLint& lint);  ///< wrapping, strategy, state dict, loading

}  // namespace shardscope
