// Typed access to the operands of a call.
#pragma once

#include "backend/device.h"

namespace shardscope::cuda {

/// Operand `index` of the call, null where it is absent.
template <class T = float>
T* operand(const KernelCall& call, std::size_t index) {
  return index < call.operands.size() ? static_cast<T*>(call.operands[index]) : nullptr;
}

}  // namespace shardscope::cuda
