// What to do where nothing fits.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/answer/rounds.h"

namespace shardscope::planner {

/// How far off the nearest choice is, and on how many ranks something fits: lines for people.
std::vector<std::string> advice_where_nothing_fits(const Weighed& weighed, const Basis& basis,
                                                   const std::stop_token& stop);

}  // namespace shardscope::planner
