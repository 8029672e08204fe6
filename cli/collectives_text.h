// What collectives of a step cost, for people.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "traces/summary.h"

namespace shardscope {

/// A row of each kind, group and size: how often, how long, and how NCCL is expected to run it; ""
/// where a step has none.
std::string collectives_text(const Summary& summary, const Painter& painter);

}  // namespace shardscope
