#include "core/schedule/host_layout.h"

#include <algorithm>

namespace shardscope {

bool uses_host_memory(const Schedule& schedule, const Operation& op) {
  return std::ranges::any_of(schedule.operands_of(op), [&](const Operand& operand) {
    return operand.buffer && schedule.at(operand.buffer).on_host;
  });
}

ArenaLayout host_layout(const Schedule& schedule) {
  constexpr std::int64_t alignment = 64;  // a cache line, and the widest vector
  ArenaLayout layout;
  for (const Buffer& buffer : schedule.buffers) {
    layout.offset.push_back(layout.size);
    if (buffer.on_host)
      layout.size += Bytes{(buffer.bytes.count + alignment - 1) / alignment * alignment};
  }
  return layout;
}

}  // namespace shardscope
