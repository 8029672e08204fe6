#include "backend/cpu/kernels/gelu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

/// Splits `elements` over the team in whole cache lines and calls `body(i, whole or part)` for
/// every vector.
template <class Body>
void for_elements(std::int64_t elements, int threads, const Body& body) {
  parallel(threads, [&](Member member) {
    const Range range = share(elements, member, 64);
    for_vectors(range.begin, range.end, body);
  });
}

}  // namespace

void run(const GeluForwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype, [&](auto element) {
    using T = decltype(element);
    const T* h = operand<T>(call, 0);
    T* y = operand<T>(call, 1);
    for_elements(kernel.rows * kernel.features, threads,
                 [=](std::int64_t i, auto part) { store(y + i, gelu(load(h + i, part)), part); });
  });
}

void run(const GeluBackwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype, [&](auto element) {
    using T = decltype(element);
    const T* h = operand<T>(call, 0);
    T* dy = operand<T>(call, 1);
    for_elements(kernel.rows * kernel.features, threads, [=](std::int64_t i, auto part) {
      store(dy + i, load(dy + i, part) * gelu_slope(load(h + i, part)), part);
    });
  });
}

void run(const SwigluForwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype, [&](auto element) {
    using T = decltype(element);
    const T* gate = operand<T>(call, 0);
    const T* up = operand<T>(call, 1);
    T* y = operand<T>(call, 2);
    for_elements(kernel.rows * kernel.features, threads, [=](std::int64_t i, auto part) {
      const Floats g = load(gate + i, part);
      store(y + i, g * sigmoid(g).value * load(up + i, part), part);
    });
  });
}

void run(const SwigluBackwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype, [&](auto element) {
    using T = decltype(element);
    const T* dy = operand<T>(call, 0);
    T* gate = operand<T>(call, 1);
    T* up = operand<T>(call, 2);
    for_elements(kernel.rows * kernel.features, threads, [=](std::int64_t i, auto part) {
      const Floats g = load(gate + i, part);
      const Floats gradient = load(dy + i, part);
      const Sigmoid s = sigmoid(g);
      const Floats dgate = gradient * load(up + i, part) * s.value * (1.0f + g * s.complement);
      store(up + i, gradient * (g * s.value), part);
      store(gate + i, dgate, part);
    });
  });
}

void run(const AddKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype, [&](auto element) {
    using T = decltype(element);
    const T* a = operand<T>(call, 0);
    T* b = operand<T>(call, 1);
    for_elements(kernel.elements, threads, [=](std::int64_t i, auto part) {
      store(b + i, load(b + i, part) + load(a + i, part), part);
    });
  });
}

void run(const FillZeroKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype, [&](auto element) {
    using T = decltype(element);
    T* a = operand<T>(call, 0);
    for_elements(kernel.elements, threads,
                 [=](std::int64_t i, auto part) { store(a + i, Floats{}, part); });
  });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
