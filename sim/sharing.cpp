#include "sim/sharing.h"

namespace shardscope {

Share share_of(OperationKind kind) {
  if (kind == OperationKind::compute || kind == OperationKind::optimizer) return Share::compute;
  return is_collective(kind) ? Share::collective : Share::alone;
}

}  // namespace shardscope
