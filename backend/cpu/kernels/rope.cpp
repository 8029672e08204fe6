#include <cmath>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

/// Long waves are slowed by `factor`, short ones kept, those between blended, in fp32 as
/// transformers' modeling_rope_utils.py (_compute_llama3_parameters) does it.
float llama3_frequency(float frequency, const Rope::Llama3& scaling) {
  const double old_length = static_cast<double>(scaling.original_max_position_embeddings);
  const float wave_length = static_cast<float>(2 * M_PI) / frequency;
  const float longest_kept = static_cast<float>(old_length / scaling.high_freq_factor);
  const float shortest_slowed = static_cast<float>(old_length / scaling.low_freq_factor);
  const float factor = static_cast<float>(scaling.factor);
  if (wave_length > shortest_slowed) return frequency / factor;
  if (wave_length < longest_kept) return frequency;
  const float smooth =
      (static_cast<float>(old_length) / wave_length - static_cast<float>(scaling.low_freq_factor)) /
      static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

/// Inverse frequency of pair `i`, in fp32 as transformers makes it.
float inverse_frequency(const Rope& rope, std::int64_t i, std::int64_t head_dim) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
  const float power = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
  const float frequency = 1.0f / power;
  if (rope.llama3) return llama3_frequency(frequency, *rope.llama3);
  if (rope.linear_factor) return frequency / static_cast<float>(*rope.linear_factor);
  return frequency;
}

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
void rotate_all(const Kernel& kernel, const KernelCall& call, int threads) {
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

void rope_table(const Kernel& kernel, const KernelCall& call, int threads) {
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

void rope_forward(const Kernel& kernel, const KernelCall& call, int threads) {
  rotate_all<false>(kernel, call, threads);
}

void rope_backward(const Kernel& kernel, const KernelCall& call, int threads) {
  rotate_all<true>(kernel, call, threads);
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
