// The pipeline of a published run.
#pragma once

#include <cstdint>

#include "sim/megatron/pipeline.h"
#include "sim/validate/published_model.h"
#include "sim/validate/published_row.h"
#include "sim/validate/published_stack.h"

namespace shardscope {

/// Stages of a rank, where its stages are interleaved: "VP 2", "interleave 3".
int stages_of_rank(const PublishedRow& row);

/// By row and shape; layers are dealt out by the work of blocks and head where the stack does so,
/// else by `equal_layers`.
MegatronPipeline published_pipeline(const PublishedRow& row, const ShapedModel& model,
                                    const TrainingStack& stack, std::int64_t micro_batch);

}  // namespace shardscope
