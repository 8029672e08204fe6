// A rank's state of training out of a checkpoint.
#pragma once

#include <memory>

#include "backend/checkpoint/checkpoint.h"
#include "backend/executor/executor.h"
#include "core/model/model.h"
#include "core/model/model_folder.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// The parameters in a checkpoint, in place of start weights.
ParameterSource saved_parameters(std::shared_ptr<Checkpoint> checkpoint, const Model& model);

/// Throws Error unless the checkpoint has every parameter, and every state that the optimizer keeps
/// of those that are trained, in the model's shapes. Reads none of them.
void require_loadable(const Checkpoint& checkpoint, const Model& model, const Optimizer& optimizer);

/// Fills parameters and optimizer states; only what this rank keeps is read, however the checkpoint
/// was laid out. Throws the Error of `require_loadable` before anything is changed.
void load_state(const std::shared_ptr<Checkpoint>& checkpoint, const Model& model,
                const Executor& executor);

/// Sets the optimizer states to zero, as they are before the first step.
void clear_optimizer_states(const Model& model, const Executor& executor);

}  // namespace shardscope
