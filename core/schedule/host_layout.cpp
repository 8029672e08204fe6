#include "core/schedule/host_layout.h"

#include <algorithm>
#include <span>

namespace shardscope {

bool is_pageable(const Schedule& schedule, const Operation& op) {
  const std::span<const Operand> operands = schedule.operands_of(op);
  return op.kind == OperationKind::copy && operands.size() == 2 && !operands.back().buffer &&
         operands.back().access == Access::read_write;
}

std::optional<Bytes> moved_over_link(const Schedule& schedule, const Operation& op) {
  const std::span<const Operand> operands = schedule.operands_of(op);
  const bool crosses = operands.size() == 1 || is_pageable(schedule, op) ||
                       std::ranges::any_of(operands, [&](const auto& one) {
                         return one.buffer && schedule.at(one.buffer).on_host;
                       });
  if (op.kind != OperationKind::copy || !crosses) return std::nullopt;
  return operands.front().bytes;
}

CopyWay copy_way(const Schedule& schedule, const Operation& op) {
  if (!moved_over_link(schedule, op)) return CopyWay::within;
  for (const Operand& one : schedule.operands_of(op)) {
    if (one.buffer && schedule.at(one.buffer).on_host) continue;
    return one.access == Access::read ? CopyWay::to_host : CopyWay::to_device;
  }
  return CopyWay::within;
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
