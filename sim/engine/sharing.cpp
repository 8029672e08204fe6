#include "sim/engine/sharing.h"

namespace shardscope {

Share share_of(OperationKind kind) {
  if (kind == OperationKind::compute || kind == OperationKind::optimizer) return Share::compute;
  return is_collective(kind) ? Share::collective : Share::alone;
}

std::uint32_t channel_of(const Schedule& schedule, const Operation& op, const SharingRules& rules) {
  if (!rules.communicators_apart || !is_collective(op.kind)) return 0;
  return schedule.collectives[op.detail].group.value;
}

}  // namespace shardscope
