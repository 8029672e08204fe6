// A step that follows itself, written down once more without being run again.
#pragma once

#include <string>

#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Appends a copy of the last step, named `label`: what a training records in one more step that
/// repeats the last one. What that step lets go of an earlier step, the copy lets go of that step;
/// what it uses and does not let go, the copy uses, too. Events before the step stand for those as
/// long before the copy. Nothing is changed, and the result is false, where the last step does not
/// leave as much of its own as it lets go of others. `writer` has written the whole schedule.
bool repeat_last_step(Schedule& schedule, ProgramWriter& writer, std::string label);

}  // namespace shardscope
