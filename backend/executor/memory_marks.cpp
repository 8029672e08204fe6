#include "backend/executor/memory_marks.h"

#include <utility>

namespace shardscope {

void note(std::vector<MemoryMark>& marks, std::string owner, const DeviceMemory& memory) {
  if (const std::optional<Bytes> in_use = memory.in_use())
    marks.push_back({.owner = std::move(owner), .in_use = *in_use});
}

}  // namespace shardscope
