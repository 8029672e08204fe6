#include <dlfcn.h>
#include <fmt/core.h>

#include "backend/executor/allocation_counter.h"

namespace shardscope {

AllocationCounts& AllocationCounts::operator+=(const AllocationCounts& other) {
  ours += other.ours;
  ours_bytes += other.ours_bytes;
  library += other.library;
  library_bytes += other.library_bytes;
  if (first_caller == nullptr) first_caller = other.first_caller;
  return *this;
}

std::string describe_code_address(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return fmt::format("{}", address);
  const auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
  return fmt::format("{} in {} at {:#x}", info.dli_sname != nullptr ? info.dli_sname : "code",
                     info.dli_fname, offset);
}

}  // namespace shardscope
