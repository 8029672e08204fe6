// The step time of a divided training, predicted.
#pragma once

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"
#include "sim/megatron/divided_training.h"
#include "sim/megatron/pipeline.h"
#include "traces/trace.h"

namespace shardscope {

struct DividedStep {
  Duration time, low, high;  ///< 90% of measurements are expected from low to high
  Accounting accounting;     ///< of a step of whole micro-batches
};

/// Records at most three micro-batches; those of a longer step repeat the second. Throws Error
/// where the setup is none that can be played.
DividedStep predicted_step(const DividedTraining& training);

/// What one micro-batch of what is played takes, of a training with a pipeline.
StageParts stage_parts(const DividedTraining& training);

/// The same with what each rank of the pipeline does. Where the training has no pipeline, `ranks`
/// are one.
struct PlayedStep {
  DividedStep step;
  PlayedPipeline pipeline;
  Schedule schedule;  ///< of the part that was played
};
PlayedStep played_step(const DividedTraining& training);

}  // namespace shardscope
