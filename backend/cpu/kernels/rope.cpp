#include <cmath>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/team.h"
#include "core/model/rope.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

/// Rotates one head: (a, b) becomes (a cos - b sin, b cos + a sin), or its inverse.
template <bool Inverse, class T>
SHARDSCOPE_INLINE void rotate(T* head, const float* table, std::int64_t half) {
  for_vectors(0, half, [&](std::int64_t i, auto part) {
    const Floats cosine = load(table + i, part);
    const Floats sine = Inverse ? -load(table + half + i, part) : load(table + half + i, part);
    const Floats a = load(head + i, part);
    const Floats b = load(head + half + i, part);
    store(head + i, a * cosine - b * sine, part);
    store(head + half + i, b * cosine + a * sine, part);
  });
}

template <bool Inverse>
void rotate_all(const RopeKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype, [&](auto element) {
    using T = decltype(element);
    const float* table = operand(call, 0);
    T* q = operand<T>(call, 1);
    T* k = operand<T>(call, 2);
    const std::int64_t dim = kernel.head_dim;
    parallel(threads, [&](Member member) {
      const Range rows = share(kernel.rows, member);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const float* angles = table + row % kernel.length * dim;
        for (std::int64_t head = 0; head < kernel.heads; ++head)
          rotate<Inverse>(q + row * kernel.q_stride + head * dim, angles, dim / 2);
        for (std::int64_t head = 0; head < kernel.kv_heads; ++head)
          rotate<Inverse>(k + row * kernel.kv_stride + head * dim, angles, dim / 2);
      }
    });
  });
}

}  // namespace

void run(const RopeTableKernel& kernel, const KernelCall& call, int threads) {
  float* table = operand(call, 0);
  const std::int64_t half = kernel.head_dim / 2;
  parallel(threads, [&](Member member) {
    const Range pairs = share(half, member);
    for (std::int64_t i = pairs.begin; i < pairs.end; ++i) {
      const float frequency = inverse_frequency(kernel.rope, i, kernel.head_dim);
      for (std::int64_t t = 0; t < kernel.length; ++t) {
        const double angle = static_cast<double>(static_cast<float>(t) * frequency);
        table[t * kernel.head_dim + i] = static_cast<float>(std::cos(angle));
        table[t * kernel.head_dim + half + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void run(const RopeForwardKernel& kernel, const KernelCall& call, int threads) {
  rotate_all<false>(kernel, call, threads);
}

void run(const RopeBackwardKernel& kernel, const KernelCall& call, int threads) {
  rotate_all<true>(kernel, call, threads);
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
