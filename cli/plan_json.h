// A plan's answer for scripts (docs/cli.md).
#pragma once

#include <optional>
#include <string>

#include "cli/plan_answer.h"
#include "sim/planner/written_choice.h"

namespace shardscope {

/// `chosen`: the best one's file, where there is a best.
std::string plan_json(const PlanAnswer& answer, const PlanInputs& inputs,
                      const PlanOptions& options,
                      const std::optional<planner::WrittenChoice>& chosen);

}  // namespace shardscope
