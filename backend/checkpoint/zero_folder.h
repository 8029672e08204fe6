// DeepSpeed's ZeRO checkpoints: `latest`, and a folder with model states and one file of optimizer
// states for each rank. Float32 weights are put together in the way of DeepSpeed's zero_to_fp32.py.
#pragma once

#include <filesystem>

#include "backend/checkpoint/foreign_checkpoint.h"

namespace shardscope {

/// Whether a folder has a `latest` that names a folder, or is such a folder itself.
bool is_zero_folder(const std::filesystem::path& folder);

/// Stages 1, 2 and 3, and 0 (no ZeRO). Throws Error for what is malformed or missing, and for
/// tensor, pipeline and expert parallelism.
ForeignCheckpoint open_zero(const std::filesystem::path& folder);

}  // namespace shardscope
