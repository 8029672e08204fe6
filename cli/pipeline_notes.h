// What people are told of a pipeline that is predicted or trained.
#pragma once

#include "cli/output_options.h"
#include "core/pipeline/setup.h"

namespace shardscope {

/// Of fewer micro-batches than stages, where PyTorch takes them: "2 micro-batches are fewer than 4
/// stages: ...", with the bubble of stages that compute equally long, (p - 1)/(v m + p - 1)
/// (arXiv:2104.04473, 2.2). Empty: there are enough.
std::string few_micro_batches(const PipelineSetup& setup);
void note_few_micro_batches(const PipelineSetup& setup, const OutputOptions& output);

}  // namespace shardscope
