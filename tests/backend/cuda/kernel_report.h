// What ptxas says of each kernel: cmake/keep_ptxas_report leaves it beside the objects.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardscope::test {

struct KernelReport {
  std::string function;      ///< demangled
  std::string architecture;  ///< "sm_80"
  std::int64_t registers = 0;
  std::int64_t stack_bytes = 0;
  std::int64_t spill_bytes = 0;     ///< written, of a thread
  std::int64_t shared_bytes = 0;    ///< static
  std::int64_t argument_bytes = 0;  ///< bank 0: what the launch sets, and the arguments
};

/// Of one report's text.
std::vector<KernelReport> parse_kernel_report(const std::string& text);
/// Of all "*.resources" below `folder`.
std::vector<KernelReport> read_kernel_reports(const std::filesystem::path& folder);

}  // namespace shardscope::test
