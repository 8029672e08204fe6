#include "backend/executor/resident_memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace shardscope {

Bytes proportional_set_size() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "Pss:" && file >> kibibytes) return 1_KiB * kibibytes;
  }
  return {};
}

Bytes heap_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return {static_cast<std::int64_t>(info.uordblks + info.hblkhd)};
}

void give_back_free_heap() { malloc_trim(0); }

}  // namespace shardscope
