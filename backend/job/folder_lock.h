// One run at a time writes into a run folder.
#pragma once

#include <filesystem>

#include "backend/base/file_descriptor.h"

namespace shardscope {

/// Holds the run folder until it goes, or the process ends, however it ends. Throws Error
/// (ExitCode::outside) where another process holds it; the file .lock in the folder stays.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor file_;
};

}  // namespace shardscope
