#include "traces/palette.h"

namespace shardscope::palette {

std::string_view of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameters:
      return blue;
    case MemoryCategory::gradients:
      return orange;
    case MemoryCategory::optimizer_states:
      return green;
    case MemoryCategory::activations:
      return sky;
    case MemoryCategory::communication:
      return vermilion;
    case MemoryCategory::temporaries:
      return purple;
    case MemoryCategory::workspace:
      return yellow;
    case MemoryCategory::inputs:
      return grey;
  }
  return grey;
}

std::string_view of(OperationKind kind, Phase phase) {
  if (kind == OperationKind::copy) return yellow;
  if (kind == OperationKind::all_gather || kind == OperationKind::broadcast) return orange;
  if (is_collective(kind)) return vermilion;
  switch (phase) {
    case Phase::forward:
      return sky;
    case Phase::backward:
      return blue;
    case Phase::optimizer:
    case Phase::clip:
      return green;
    case Phase::init:
    case Phase::zero_grad:
    case Phase::other:
      break;
  }
  return grey;
}

}  // namespace shardscope::palette
