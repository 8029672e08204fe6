// Typed access to the operands of a call, and to the elements of either dtype.
#pragma once

#include "backend/cuda/kernels/simt.h"
#include "backend/device/device.h"
#include "core/base/bfloat16.h"

namespace shardscope::cuda {

/// Operand `index` of the call, null where it is absent.
template <class T = float>
T* operand(const KernelCall& call, std::size_t index) {
  return index < call.operands.size() ? static_cast<T*>(call.operands[index]) : nullptr;
}

SHARDSCOPE_DEVICE float get(float element) { return element; }
SHARDSCOPE_DEVICE float get(Bfloat16 element) { return to_float(element); }
/// Rounds once.
SHARDSCOPE_DEVICE void put(float& element, float value) { element = value; }
SHARDSCOPE_DEVICE void put(Bfloat16& element, float value) { element = to_bfloat16(value); }

template <class T>
struct Of {
  using Type = T;
};

/// Calls `body(Of<T>)` with the kernel's element type.
template <class Body>
void with_element(Dtype dtype, const Body& body) {
  dtype == Dtype::bfloat16 ? body(Of<Bfloat16>{}) : body(Of<float>{});
}

/// Calls `body(Of<T>, Of<G>)` with the types of the kernel's elements and parameter gradients.
template <class K, class Body>
void with_elements(const K& kernel, const Body& body) {
  with_element(kernel.dtype, [&](auto element) {
    with_element(kernel.gradient_dtype, [&](auto gradient) { body(element, gradient); });
  });
}

}  // namespace shardscope::cuda
