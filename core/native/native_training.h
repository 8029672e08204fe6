// What the native runtime is asked to train, and how.
#pragma once

#include "core/model/model.h"
#include "core/pipeline/choice.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// `model` must outlive it.
struct NativeTraining {
  const Model& model;
  Strategy strategy;  ///< resolved
  Workload workload;
  PipelineChoice pipeline = {};  ///< where the mesh has a pipeline
  /// Of the arena: the schedule has the least recomputation that fits; 0: as the strategy says.
  Bytes memory_budget = {};
};

}  // namespace shardscope
