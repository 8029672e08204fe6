// A plan's answer for people.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "sim/planner/answer/answer.h"
#include "sim/planner/answer/inputs.h"

namespace shardscope {

/// Everything.
std::string plan_text(const planner::Answer& answer, const planner::Inputs& inputs,
                      const Painter& painter);

/// What the chosen one's file leaves to the script.
std::string written_text(const planner::WrittenChoice& written);

}  // namespace shardscope
