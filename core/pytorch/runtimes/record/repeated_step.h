// One more step that repeats the last one, written down without being run.
#pragma once

#include <string>

#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Appends step N + 1, named `label`, as a copy of the last step N: what a training records that
/// repeats it. A buffer of step N - 1 that step N frees stands for the one of step N that step N +
/// 1 frees. A buffer from before that step N uses and keeps is used by step N + 1, too. An event of
/// step N - 1 stands for that of step N. Nothing is changed, and the result is false, where the
/// buffers that step N leaves are not like those that it frees of others. `writer` has written the
/// whole schedule.
bool repeat_last_step(Schedule& schedule, ProgramWriter& writer, std::string label);

}  // namespace shardscope
