// The step time of a published run, predicted.
#pragma once

#include "core/base/quantities.h"
#include "sim/validate/published_scenario.h"
#include "traces/trace.h"

namespace shardscope {

struct PublishedPrediction {
  Duration time, low, high;  ///< 90% of measurements are expected from low to high
  Accounting accounting;     ///< of a step of whole micro-batches
};

/// Records at most three micro-batches; those of a longer step repeat the second. Throws Error
/// where the setup is none that can be played.
PublishedPrediction predicted_step(const PublishedScenario& scenario);

}  // namespace shardscope
