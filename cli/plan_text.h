// A plan's answer for people.
#pragma once

#include <string>

#include "cli/plan_answer.h"
#include "cli/terminal.h"
#include "sim/planner/written_choice.h"

namespace shardscope {

/// Everything; `price` is --price-per-gpu-hour's.
std::string plan_text(const PlanAnswer& answer, const PlanInputs& inputs,
                      const PlanOptions& options, const Painter& painter);

/// What the chosen one's file leaves to the script.
std::string written_text(const planner::WrittenChoice& written);

}  // namespace shardscope
