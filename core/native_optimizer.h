// The last pass of a native step: the gradient norm, clipping, the optimizer, and the gather of
// what it updated.
#pragma once

#include <span>

#include "core/model/model.h"
#include "core/native_units.h"
#include "core/precision.h"
#include "core/schedule_builder.h"

namespace shardscope {

/// What the pass finds: everything must outlive the call.
struct OptimizerInput {
  const Model& model;
  const Workload& workload;
  const UnitPlan& plan;
  std::span<const UnitState> units;  ///< by unit, with reduced gradients
  Sharding sharding;
  PrecisionDtypes dtypes;
  ShardPosition shard;
  GroupId shard_group;
  BufferId clip;  ///< float64[2], see KernelKind::clip_coefficient
};

/// Adds the operations of the phases clip and optimizer; none where nothing is trained.
void add_optimizer(const OptimizerInput& input, ScheduleBuilder& builder);

}  // namespace shardscope
