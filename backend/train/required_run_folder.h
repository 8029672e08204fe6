// A run folder can vanish while the run goes on, with the file system that it lies on.
#pragma once

#include <filesystem>

namespace shardscope {

/// Throws Error (ExitCode::outside) where `run` has no job.json, which every run leaves in its
/// folder before the first step. What would be written now would lie below the mount point, on
/// another disk, and be hidden once the file system is back.
void require_run_folder(const std::filesystem::path& run);

}  // namespace shardscope
