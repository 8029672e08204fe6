// An arena that no other process reads.
#pragma once

#include <filesystem>
#include <memory>

#include "backend/comm/communicator.h"

namespace shardscope {

std::unique_ptr<Arena> make_private_arena(Bytes size);

/// In a file without a name in `folder`, whose pages may leave memory; gone with its owner. Throws
/// Error where the folder has no room or cannot be written.
std::unique_ptr<Arena> make_file_arena(Bytes size, const std::filesystem::path& folder);

}  // namespace shardscope
