// Rotary embedding: the table, made in the precision that transformers uses, and the rotation.
#pragma once

#include <algorithm>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"
#include "core/model/rope.h"

namespace shardscope::cuda {

/// Pairs of one launch: their frequencies travel with its arguments.
inline constexpr std::int64_t rope_pairs_of_launch = 256;

struct RopeTable {
  float frequencies[rope_pairs_of_launch];
  float* table;
  std::int64_t length, head_dim, first_pair, pairs;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, length * pairs, [&](std::int64_t i) {
      const std::int64_t t = i / pairs, pair = i % pairs;
      const double angle = static_cast<double>(static_cast<float>(t) * frequencies[pair]);
      float* row = table + t * head_dim + first_pair + pair;
      row[0] = static_cast<float>(::cos(angle));
      row[head_dim / 2] = static_cast<float>(::sin(angle));
    });
  }
};

/// (a, b) becomes (a cos - b sin, b cos + a sin), or its inverse, in all heads of q and k.
template <class T>
struct Rotate {
  const float* table;
  T* q;
  T* k;
  std::int64_t rows, length, heads, kv_heads, head_dim, q_stride, kv_stride;
  bool inverse, aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    aligned ? rotate_all<vector_elements>(thread) : rotate_all<1>(thread);
  }

  /// `n` pairs at a time.
  template <int n, class Thread>
  SHARDSCOPE_DEVICE void rotate_all(Thread& thread) const {
    const std::int64_t half = head_dim / 2, of_head = half / n;
    const std::int64_t of_row = (heads + kv_heads) * of_head;
    for_grid(thread, rows * of_row, [&](std::int64_t i) {
      const std::int64_t row = i / of_row, head = i % of_row / of_head, pair = i % of_head * n;
      T* of_q = q + row * q_stride + head * head_dim;
      T* of_k = k + row * kv_stride + (head - heads) * head_dim;
      T* a = (head < heads ? of_q : of_k) + pair;
      const float* angles = table + row % length * head_dim + pair;
      float cosine[n], sine[n], old_a[n], old_b[n], new_a[n], new_b[n];
      load(angles, cosine);
      load(angles + half, sine);
      load(a, old_a);
      load(a + half, old_b);
      for (int j = 0; j < n; ++j) {
        const float s = inverse ? -sine[j] : sine[j];
        new_a[j] = old_a[j] * cosine[j] - old_b[j] * s;
        new_b[j] = old_b[j] * cosine[j] + old_a[j] * s;
      }
      store(a, new_a);
      store(a + half, new_b);
    });
  }
};

template <class Stream>
void run(const RopeTableKernel& kernel, const KernelCall& call, Stream& stream) {
  const std::int64_t half = kernel.head_dim / 2;
  for (std::int64_t first = 0; first < half; first += rope_pairs_of_launch) {
    RopeTable body{.frequencies = {},
                   .table = operand(call, 0),
                   .length = kernel.length,
                   .head_dim = kernel.head_dim,
                   .first_pair = first,
                   .pairs = std::min(rope_pairs_of_launch, half - first)};
    for (std::int64_t i = 0; i < body.pairs; ++i)
      body.frequencies[i] = inverse_frequency(kernel.rope, first + i, kernel.head_dim);
    stream.launch(body, elementwise_shape(kernel.length * body.pairs));
  }
}

template <class Stream>
void rotate_all(const RopeKernel& kernel, const KernelCall& call, bool inverse, Stream& stream) {
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    const float* table = operand(call, 0);
    T* q = operand<T>(call, 1);
    T* k = operand<T>(call, 2);
    const std::int64_t half = kernel.head_dim / 2;
    const bool aligned = half % vector_elements == 0 && are_aligned(table, q, k) &&
                         keeps_alignment<T>(kernel.q_stride) &&
                         keeps_alignment<T>(kernel.kv_stride);
    const std::int64_t pairs = kernel.rows * (kernel.heads + kernel.kv_heads) * half;
    stream.launch(Rotate<T>{.table = table,
                            .q = q,
                            .k = k,
                            .rows = kernel.rows,
                            .length = kernel.length,
                            .heads = kernel.heads,
                            .kv_heads = kernel.kv_heads,
                            .head_dim = kernel.head_dim,
                            .q_stride = kernel.q_stride,
                            .kv_stride = kernel.kv_stride,
                            .inverse = inverse,
                            .aligned = aligned},
                  aligned ? vector_shape(pairs) : elementwise_shape(pairs));
  });
}

template <class Stream>
void run(const RopeForwardKernel& kernel, const KernelCall& call, Stream& stream) {
  rotate_all(kernel, call, false, stream);
}

template <class Stream>
void run(const RopeBackwardKernel& kernel, const KernelCall& call, Stream& stream) {
  rotate_all(kernel, call, true, stream);
}

}  // namespace shardscope::cuda
