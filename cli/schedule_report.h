// A schedule as text and as JSON.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// `schedule --json` (docs/cli.md); with `collectives_only` the other operations are left out.
std::string schedule_json(const Schedule& schedule, bool collectives_only);

/// One row an operation: id, stream, phase, unit, name, bytes, flops, what it waits for, and the
/// bytes that live meanwhile.
std::string schedule_table(const Schedule& schedule, const Painter& painter);

/// The same of a schedule with a host program: with step and module.
std::string program_table(const Schedule& schedule, const Painter& painter);

/// One row a collective: kind, group, elements in and out.
std::string collectives_table(const Schedule& schedule, const Painter& painter);

}  // namespace shardscope
