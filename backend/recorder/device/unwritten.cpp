#include "backend/recorder/device/unwritten.h"

#include <cstdint>

extern "C" {
// The linker's bounds of the section that GenerateUnwritten.cmake puts them in.
[[gnu::visibility("hidden")]] extern const char __start_shardscope_unwritten;
[[gnu::visibility("hidden")]] extern const char __stop_shardscope_unwritten;
}

namespace shardscope::recorder {

bool is_generated(const void* function) {
  const auto place = reinterpret_cast<std::uintptr_t>(function);
  return place >= reinterpret_cast<std::uintptr_t>(&__start_shardscope_unwritten) &&
         place < reinterpret_cast<std::uintptr_t>(&__stop_shardscope_unwritten);
}

}  // namespace shardscope::recorder
