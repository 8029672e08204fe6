// The model that a job trains.
#pragma once

#include "core/model/huggingface.h"
#include "core/model/model.h"
#include "core/native/job.h"

namespace shardscope {

/// The job's model, what the job does not train frozen. Throws Error where it names none.
Model trained_model(const Job& job, const ModelOptions& options = {});

}  // namespace shardscope
