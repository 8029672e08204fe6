#include "cli/output_path.h"

#include <fmt/format.h>

#include <string>
#include <system_error>

#include "core/base/error.h"
#include "core/format/atomic_file.h"

namespace shardscope {

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

void require_writable(const std::filesystem::path& output) { const AtomicFile probe(output); }

}  // namespace shardscope
