#include "traces/import/memory_guard.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace shardscope {
namespace {

constexpr std::int64_t kept_share = 10;  ///< a tenth stays free

/// Of a file of lines like "MemAvailable:  1024 kB".
std::optional<Bytes> line_of(const char* path, std::string_view wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(wanted))
      return Bytes{std::strtoll(line.c_str() + wanted.size(), nullptr, 10) * 1024};
  }
  return std::nullopt;
}

}  // namespace

Bytes free_memory() {
  const Bytes unknown{std::numeric_limits<std::int64_t>::max()};
  const Bytes machine = line_of("/proc/meminfo", "MemAvailable:").value_or(unknown);
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return machine;
  const Bytes held = line_of("/proc/self/status", "VmSize:").value_or(Bytes{});
  const Bytes most{static_cast<std::int64_t>(
      std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(unknown.count)))};
  return std::min(machine, std::max(most - held, Bytes{}));
}

MemoryGuard::MemoryGuard(std::string file, Measure free)
    : file_(std::move(file)), free_(std::move(free)), at_first_(free_()), at_last_(at_first_) {}

void MemoryGuard::check() {
  at_last_ = free_();
  if (at_last_ < at_first_ / kept_share) throw out_of_memory();
}

Error MemoryGuard::out_of_memory() const {
  return Error({.where = file_,
                .what = fmt::format("it has taken {} of memory so far, and {} of {} is free",
                                    rounded_text(std::max(at_first_ - at_last_, Bytes{})),
                                    rounded_text(at_last_), rounded_text(at_first_)),
                .way_out = "profile fewer steps, or open it on a machine with more",
                .code = ExitCode::outside});
}

}  // namespace shardscope
