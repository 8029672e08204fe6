// The ways to train in torchtitan's loop: every grid of its axes pipeline, replicate, shard,
// context and tensor that the model, the cluster and what is predicted allow.
#pragma once

#include "core/base/error.h"
#include "sim/planner/enumerate.h"

namespace shardscope::planner {

/// As `simulate --runtime torchtitan` predicts them: heads, columns and tokens divide over the axis
/// tensor, which stays inside a node; a sequence's heads and tails over the axis context, which has
/// no pipeline beside it. Data is sharded over several ranks (shard x context), or in a pipeline
/// not at all. What there is none of is said in `dropped`.
Enumeration enumerate_torchtitan(const Model& model, const Question& question);

/// Why there are none at all, naming the option that decides and values that would do.
Error no_layout_of_torchtitan(const Model& model, const Question& question);

}  // namespace shardscope::planner
