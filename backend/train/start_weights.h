// The weights that a run starts from.
#pragma once

#include <vector>

#include "backend/executor/executor.h"
#include "backend/train/parameter_storage.h"
#include "core/model/model.h"
#include "core/model/model_folder.h"
#include "core/native/job.h"

namespace shardscope {

/// Drawn by name and seed, or read from the Hugging Face folder `job.model`, whose files stay open.
/// `model` must outlive it. Throws Error for a weight that is missing or has another
/// shape.
ParameterSource start_weights(const Job& job, const Model& model);

/// Fills the parts of parameters that `storages` hold; only these elements are asked for.
void fill_storages(const ParameterSource& source, const Model& model,
                   const std::vector<UnitStorage>& storages);

/// Fills this rank's parameter storage; only the elements that the rank keeps are asked for.
void load_start_weights(const ParameterSource& source, const Model& model,
                        const Executor& executor);

}  // namespace shardscope
