#include "core/schedule/model_states.h"

namespace shardscope {

std::int64_t optimizer_bytes_per_element(const Optimizer& optimizer, Precision precision) {
  const PrecisionDtypes dtypes = dtypes_of(precision);
  const int copies = dtypes.has_master() ? 1 : 0;
  const int states = optimizer.kind == OptimizerKind::adamw ? 2 : optimizer.momentum != 0 ? 1 : 0;
  return bytes_of(copies + states, dtypes.updated).count;
}

}  // namespace shardscope
