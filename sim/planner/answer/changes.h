// What leads from one choice to another.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/choice.h"

namespace shardscope::planner {

/// What one has to change to get from one choice to the other, in the words of the runtime's file;
/// another runtime counts as one change.
std::vector<std::string> changes_between(const Choice& from, const Choice& to);

}  // namespace shardscope::planner
