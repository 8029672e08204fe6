// Rules of lint that look at what becomes of a model: its units and shards.
#pragma once

#include <vector>

#include "core/config/config_file.h"
#include "core/config/config_plan.h"
#include "core/config/values/finding.h"
#include "core/config/workers.h"

namespace shardscope {

/// `value` is value_of(file), `workers` what it starts. What the real libraries refuse is a
/// finding.
std::vector<Finding> lint_with_model(const ConfigFile& file, const ConfigValue& value,
                                     const Workers& workers, const ConfiguredModel& model);

}  // namespace shardscope
