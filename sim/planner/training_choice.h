// Which of the planner's choices a training is.
#pragma once

#include "core/model/model.h"
#include "sim/planner/choice.h"
#include "sim/planner/pytorch_training.h"

namespace shardscope::planner {

/// The planner's choice that comes nearest to a training: what it has no place for is left out.
Choice choice_of(const PytorchTraining& training, const Model& model);

}  // namespace shardscope::planner
