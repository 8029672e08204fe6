// Where a verb may write: never over what it reads, and found out before the work.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace shardscope {

/// Throws Error where `output` is one of the files in `inputs`, or lies where a folder of them
/// does.
void refuse_over_input(const std::filesystem::path& output,
                       std::span<const std::filesystem::path> inputs, std::string_view option);
void refuse_over_input(const std::filesystem::path& output, const std::filesystem::path& input,
                       std::string_view option);

/// Throws Error where `output` is there already and lies in one of `inputs` that is a folder.
void refuse_over_contents(const std::filesystem::path& output,
                          std::span<const std::filesystem::path> inputs, std::string_view option);

/// Throws Error (ExitCode::outside) unless a file can be created there. Leaves no file.
void require_writable(const std::filesystem::path& output);

}  // namespace shardscope
