// The order of DeepSpeed's pipeline engine.
#pragma once

#include "core/pipeline/program.h"

namespace shardscope {

/// TrainSchedule of one stage: steps in which every second stage goes forward and the others go
/// backward; before each, neighbours exchange what the step before made. Every send and receive is
/// waited for at once, because it stands on the stream that computes. Any number of micro-batches.
/// Source: deepspeed runtime/pipe/schedule.py (TrainSchedule), runtime/pipe/p2p.py.
PipelineProgram deepspeed_program(int stage, int stages, int micro_batches);

}  // namespace shardscope
