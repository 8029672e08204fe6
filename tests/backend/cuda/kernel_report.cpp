#include "tests/backend/cuda/kernel_report.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/backend/cuda/launch_record.h"

namespace shardscope::test {
namespace {

/// The number before `unit`; 0 where the line does not have it.
std::int64_t number_before(const std::string& line, const char* unit) {
  std::smatch found;
  const std::regex pattern("([0-9]+) " + std::string(unit));
  return std::regex_search(line, found, pattern) ? std::stoll(found[1]) : 0;
}

}  // namespace

std::vector<KernelReport> parse_kernel_report(const std::string& text) {
  const std::regex entry("Compiling entry function '([^']+)' for '([^']+)'");
  std::vector<KernelReport> reports;
  std::istringstream lines(text);
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, found, entry)) {
      reports.push_back({.function = demangled(found[1].str().c_str()), .architecture = found[2]});
    } else if (line.find("spill stores") != std::string::npos && !reports.empty()) {
      reports.back().stack_bytes = number_before(line, "bytes stack frame");
      reports.back().spill_bytes = number_before(line, "bytes spill stores");
    } else if (line.find("Used ") != std::string::npos && !reports.empty()) {
      reports.back().registers = number_before(line, "registers");
      reports.back().shared_bytes = number_before(line, "bytes smem");
      reports.back().argument_bytes = number_before(line, "bytes cmem\\[0\\]");
    }
  }
  return reports;
}

std::vector<KernelReport> read_kernel_reports(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".resources") files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<KernelReport> reports;
  for (const auto& file : files) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    const std::vector<KernelReport> of_file = parse_kernel_report(text.str());
    reports.insert(reports.end(), of_file.begin(), of_file.end());
  }
  return reports;
}

}  // namespace shardscope::test
