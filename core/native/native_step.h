// What the passes of a native schedule go by, and what they share.
#pragma once

#include "core/base/precision.h"
#include "core/model/model.h"
#include "core/native/native_training.h"
#include "core/native/operator_graph.h"
#include "core/native/pipeline_stages.h"
#include "core/native/unit_state.h"
#include "core/native/units.h"
#include "core/schedule/schedule.h"
#include "core/schedule/schedule_builder.h"
#include "core/schedule/target.h"

namespace shardscope {

/// Groups of ranks that a rank is in; none: it is alone in it.
struct NativeGroups {
  GroupId all;    ///< the whole world
  GroupId world;  ///< ranks that share the data of the step: the world, or those of a stage
  GroupId shard, replicate;
  GroupId pipeline;  ///< one rank of every stage
  /// Of two ranks each, in the pipeline: 2 k and 2 k + 1, 2 k + 1 and 2 k + 2, the last and the
  /// first.
  GroupId even_pair, odd_pair, ends;
};

/// The parts of all ranks of a pipeline, which the gradient norm goes over; empty: no pipeline.
struct PipelineParts {
  std::vector<PipelinePart> parts;
  std::vector<UnitPlan> plans;
};
PipelineParts pipeline_parts(const NativeTraining& training);

/// The units of every rank of the pipeline; without one, of all ranks.
std::vector<UnitPlan> unit_plans(const NativeTraining& training);

/// All that follows from the inputs before the first operation. `model`, `target` and `pipeline`
/// must outlive it.
struct NativeStep {
  const Model& model;
  const Target& target;
  Strategy strategy;
  Workload workload;
  const PipelineParts& pipeline;
  int pipeline_rank = 0;
  Sharding sharding;
  PrecisionDtypes dtypes;
  ShardPosition shard;
  UnitPlan plan;
  OperatorGraph graph;
  NativeGroups groups = {};

  bool updates_on_host() const { return strategy.offload != Offload::none; }
  const Unit& unit(UnitId id) const { return plan.units[id.value]; }
  bool is_pipelined() const { return !pipeline.parts.empty(); }
  const PipelinePart& part() const {
    return pipeline.parts[static_cast<std::size_t>(pipeline_rank)];
  }
};

/// Lowers the rank's part of the model, with its backward and what is run again in it. `pipeline`:
/// `pipeline_parts` of the training.
NativeStep native_step(const NativeTraining& training, const PipelineParts& pipeline, int rank,
                       const Target& target);

NativeGroups add_groups(const NativeStep& step, int rank, ScheduleBuilder& builder);

/// Storage that outlives the step, and what there is of each unit's at a point of it.
struct NativeStorage {
  std::vector<UnitState> units;
  BufferId tokens, targets;
  BufferId loss;  ///< the mean loss, and a number that ranks sum with it (the request to stop)
  BufferId clip;
  BufferId host_clip;  ///< its copy for updates on the host
};
NativeStorage add_storage(const NativeStep& step, ScheduleBuilder& builder);

/// The part of a unit's flat storage of a parameter, which it must hold.
const FlatSlot& slot_of(const Unit& unit, ParameterId parameter);

/// Reductions of ranks' gradients.
Collective reduction(GroupId group, std::int64_t elements_in, std::int64_t elements_out,
                     Dtype dtype);

}  // namespace shardscope
