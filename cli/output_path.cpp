#include "cli/output_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

/// Of the folder that a file is in, so that a link is taken for itself.
fs::path real_folder_of(const fs::path& file) {
  std::error_code ignored;
  return fs::weakly_canonical(fs::absolute(file, ignored).parent_path(), ignored);
}

}  // namespace

void refuse_over_input(const std::filesystem::path& output,
                       std::span<const std::filesystem::path> inputs, std::string_view option) {
  for (const std::filesystem::path& input : inputs) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(output, input, ignored)) continue;
    throw Error({.where = fmt::format("{} {}", option, output.string()),
                 .what = "this is the input, which would be lost",
                 .way_out = "give another name"});
  }
}

void refuse_over_input(const std::filesystem::path& output, const std::filesystem::path& input,
                       std::string_view option) {
  refuse_over_input(output, std::span(&input, 1), option);
}

void refuse_over_contents(const fs::path& output, std::span<const fs::path> inputs,
                          std::string_view option) {
  if (!is_there(output)) return;
  for (const fs::path& input : inputs) {
    std::error_code ignored;
    if (!fs::is_directory(input, ignored)) continue;
    if (!is_below(real_folder_of(output), fs::canonical(input, ignored))) continue;
    throw Error({.where = fmt::format("{} {}", option, output.string()),
                 .what = fmt::format("this file of the input {} would be lost", input.string()),
                 .way_out = "give the name of a file that is not there yet"});
  }
}

void require_writable(const std::filesystem::path& output) { const AtomicFile probe(output); }

}  // namespace shardscope
