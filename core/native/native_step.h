// What the passes of a native schedule go by, and what they share.
#pragma once

#include "core/base/precision.h"
#include "core/model/model.h"
#include "core/native/operator_graph.h"
#include "core/native/unit_state.h"
#include "core/native/units.h"
#include "core/schedule/schedule.h"
#include "core/schedule/schedule_builder.h"
#include "core/schedule/target.h"

namespace shardscope {

/// Groups of ranks that a rank is in; none: it is alone in it.
struct NativeGroups {
  GroupId world, shard, replicate;
};

/// All that follows from the inputs before the first operation. `model` and `target` must outlive
/// it.
struct NativeStep {
  const Model& model;
  const Target& target;
  Strategy strategy;
  Workload workload;
  Sharding sharding;
  PrecisionDtypes dtypes;
  ShardPosition shard;
  UnitPlan plan;
  OperatorGraph graph;
  NativeGroups groups = {};

  const Unit& unit(UnitId id) const { return plan.units[id.value]; }
};

/// Lowers the model, with its backward and what is run again in it.
NativeStep native_step(const Model& model, const Strategy& strategy, const Workload& workload,
                       int rank, const Target& target);

NativeGroups add_groups(const NativeStep& step, int rank, ScheduleBuilder& builder);

/// Storage that outlives the step, and what there is of each unit's at a point of it.
struct NativeStorage {
  std::vector<UnitState> units;
  BufferId tokens, targets;
  BufferId loss;  ///< the mean loss, and a number that ranks sum with it (the request to stop)
  BufferId clip;
};
NativeStorage add_storage(const NativeStep& step, ScheduleBuilder& builder);

/// The part of a unit's flat storage of a parameter, which it must hold.
const FlatSlot& slot_of(const Unit& unit, ParameterId parameter);

/// Reductions of ranks' gradients.
Collective reduction(GroupId group, std::int64_t elements_in, std::int64_t elements_out,
                     Dtype dtype);

}  // namespace shardscope
