// Files that are never half written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace shardscope {

/// Writes `path` whole: to a temporary beside it, fsync, rename, fsync of the folder. Throws Error (ExitCode::outside)
/// with the path and the system's reason; then no temporary is left and an older file stands as it was.
void write_atomically(const std::filesystem::path& path, std::string_view content);

/// Reads a whole file of at most `max_bytes`; Error (ExitCode::bad_input) names the path and the reason.
std::string read_whole(const std::filesystem::path& path, std::int64_t max_bytes = std::int64_t{1} << 32);

/// The folder exists afterwards, or Error (ExitCode::outside).
void create_folder(const std::filesystem::path& path);

}  // namespace shardscope
