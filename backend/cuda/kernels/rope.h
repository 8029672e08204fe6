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
struct Rotate {
  const float* table;
  float* heads;
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
      float* a = heads + row * stride + head * head_dim + pair;
      const float old_a = *a, old_b = a[half];
      *a = old_a * cosine - old_b * sine;
      a[half] = old_b * cosine + old_a * sine;
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

template <class Stream>
void rotate_all(const Kernel& kernel, const KernelCall& call, bool inverse, Stream& stream) {
  const auto rotate = [&](float* heads, std::int64_t count, std::int64_t stride) {
    stream.launch(Rotate{.table = operand(call, 0),
                         .heads = heads,
                         .rows = kernel.rows,
                         .length = kernel.length,
                         .count = count,
                         .head_dim = kernel.head_dim,
                         .stride = stride,
                         .inverse = inverse},
                  elementwise_shape(kernel.rows * count * kernel.head_dim / 2));
  };
  rotate(operand(call, 1), kernel.heads, kernel.q_stride);
  rotate(operand(call, 2), kernel.kv_heads, kernel.kv_stride);
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
