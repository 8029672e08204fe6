// A plan's answer for other programs (docs/cli.md).
#pragma once

#include <string>

#include "sim/planner/answer/answer.h"

namespace shardscope::planner {

/// One object, without a newline at its end.
std::string answer_json(const Answer& answer, const Inputs& inputs);

}  // namespace shardscope::planner
