// Typed access to the operands of a call, and the element types that a kernel is made for.
#pragma once

#include "backend/cpu/kernels/isa.h"
#include "backend/device/device.h"
#include "core/base/bfloat16.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

/// Operand `index` of the call, null where it is absent.
template <class T = float>
inline __attribute__((always_inline)) T* operand(const KernelCall& call, std::size_t index) {
  return index < call.operands.size() ? static_cast<T*>(call.operands[index]) : nullptr;
}

/// Calls `body` with a value of the C++ type of `dtype`: float or Bfloat16.
template <class Body>
void with_element(Dtype dtype, const Body& body) {
  if (dtype == Dtype::bfloat16) return body(Bfloat16{});
  body(float{});
}

/// Calls `body` with values of the types of the kernel's dtype and gradient_dtype.
template <class K, class Body>
void with_elements(const K& kernel, const Body& body) {
  if (kernel.dtype != Dtype::bfloat16) return body(float{}, float{});
  with_element(kernel.gradient_dtype, [&](auto gradient) { body(Bfloat16{}, gradient); });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
