// Typed access to the operands of a call.
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "backend/device.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

/// Operand `index` of the call, null where it is absent.
template <class T = float>
inline __attribute__((always_inline)) T* operand(const KernelCall& call, std::size_t index) {
  return index < call.operands.size() ? static_cast<T*>(call.operands[index]) : nullptr;
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
