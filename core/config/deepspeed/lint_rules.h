// The rules of DeepSpeed's lint by subject.
#pragma once

#include <string>

#include "core/config/deepspeed/lint.h"
#include "core/config/values/config_value.h"
#include "core/config/values/finding_list.h"

namespace shardscope {

/// What rules look at. `config` is a dict; a section that is none is told by lint_values alone.
struct DeepSpeedLint {
  const ConfigValue& config;
  const DeepSpeedRun& run;
  FindingList& findings;

  /// The section zero_optimization; an empty dict where it is missing or none.
  const ConfigValue& zero() const;
  /// Its stage as DeepSpeed takes it: 0 where it is missing; -1 where it is refused.
  std::int64_t stage() const;
};

void lint_keys(const DeepSpeedLint& lint);      ///< unknown, removed, deprecated, twice
void lint_values(const DeepSpeedLint& lint);    ///< refused values, "auto", sizes in bytes
void lint_stages(const DeepSpeedLint& lint);    ///< keys that the stage does not look at, offload
void lint_together(const DeepSpeedLint& lint);  ///< batch, precision, ranks, what is saved

}  // namespace shardscope
