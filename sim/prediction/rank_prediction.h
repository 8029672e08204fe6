// What the simulator says of a rank whose step other ranks have a part in.
#pragma once

#include <optional>

#include "sim/prediction/band.h"
#include "sim/prediction/prediction.h"

namespace shardscope {

/// What ranks that are played together have in common.
struct StepOfAllRanks {
  Duration least = {};                    ///< the step that repeats ends no sooner
  std::optional<StepTimeBand> band = {};  ///< none: that of the rank alone, where it is asked for
};

/// `predict` of a schedule with a host program.
Prediction predict_rank(Schedule schedule, const PredictedRun& run, const StepOfAllRanks& step,
                        const HardwareProfile& profile);

}  // namespace shardscope
