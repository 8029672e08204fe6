// Whether something lies at a path.
#pragma once

#include <filesystem>
#include <system_error>

namespace shardscope {

/// False, too, where the system does not let us look.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace shardscope
