// Rotary embedding: the table, made in the precision that transformers uses, and the rotation.
#pragma once

#include <algorithm>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/simt.h"
#include "core/rope.h"

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

/// (a, b) becomes (a cos - b sin, b cos + a sin), or its inverse.
template <class T>
struct Rotate {
  const float* table;
  T* heads;
  std::int64_t rows, length, count, head_dim, stride;
  bool inverse;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t half = head_dim / 2, pairs = count * half;
    for_grid(thread, rows * pairs, [&](std::int64_t i) {
      const std::int64_t row = i / pairs, head = i % pairs / half, pair = i % half;
      const float* angles = table + row % length * head_dim;
      const float cosine = angles[pair];
      const float sine = inverse ? -angles[half + pair] : angles[half + pair];
      T* a = heads + row * stride + head * head_dim + pair;
      const float old_a = get(a[0]), old_b = get(a[half]);
      put(a[0], old_a * cosine - old_b * sine);
      put(a[half], old_b * cosine + old_a * sine);
    });
  }
};

template <class Stream>
void rope_table(const Kernel& kernel, const KernelCall& call, Stream& stream) {
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

template <class T, class Stream>
void rotate(const Kernel& kernel, const Rotate<T>& body, Stream& stream) {
  stream.launch(body, elementwise_shape(kernel.rows * body.count * kernel.head_dim / 2));
}

template <class Stream>
void rotate_all(const Kernel& kernel, const KernelCall& call, bool inverse, Stream& stream) {
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    Rotate<T> body{.table = operand(call, 0),
                   .heads = operand<T>(call, 1),
                   .rows = kernel.rows,
                   .length = kernel.length,
                   .count = kernel.heads,
                   .head_dim = kernel.head_dim,
                   .stride = kernel.q_stride,
                   .inverse = inverse};
    rotate(kernel, body, stream);
    body.heads = operand<T>(call, 2);
    body.count = kernel.kv_heads;
    body.stride = kernel.kv_stride;
    rotate(kernel, body, stream);
  });
}

template <class Stream>
void rope_forward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  rotate_all(kernel, call, false, stream);
}

template <class Stream>
void rope_backward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  rotate_all(kernel, call, true, stream);
}

}  // namespace shardscope::cuda
