// What lives at the peak of a schedule with a host program: whose it is, until when, and which
// setting would free it.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "core/pytorch/runtimes/training/training_setup.h"
#include "core/schedule/peak_contents.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// A table of the buffers, the largest groups first: those of different blocks that are otherwise
/// alike stand in one row.
std::string explain_contents(const Schedule& schedule, const ProgramContents& contents,
                             const eager::TrainingSetup& setup, const Painter& painter);

/// Of the step whose peak is the highest.
std::string explain_program_peak(const Schedule& schedule, const eager::TrainingSetup& setup,
                                 const Painter& painter);

}  // namespace shardscope
