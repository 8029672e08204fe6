// What the forward and the backward of attention share: the cut into blocks and the packed copies
// of one head.
//
// Causal attention is computed block by block (64 queries x 64 keys), so that no length x length
// matrix exists. One work item is one key-value head of one sequence with all query heads that read
// it; results do not depend on the team.
#pragma once

#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/kernels/tile.h"
#include "core/schedule/kernel.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

inline constexpr std::int64_t block = 64;
inline constexpr std::int64_t block_vectors_of_keys = block / lanes;

inline std::int64_t blocks_of(std::int64_t length) { return (length + block - 1) / block; }
inline std::int64_t padded_width(std::int64_t head_dim) {
  return (head_dim + lanes - 1) / lanes * lanes;
}

/// One work item: sequence `batch`, key-value head `head`.
struct KeyValueHead {
  std::int64_t batch = 0;
  std::int64_t head = 0;
};
inline KeyValueHead key_value_head(const AttentionKernel& kernel, std::int64_t item) {
  return {item / kernel.kv_heads, item % kernel.kv_heads};
}

/// Rows of one head inside a matrix of many heads.
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t stride = 0;  ///< elements between rows
  T* row(std::int64_t index) const { return data + index * stride; }
};

template <class T>
HeadRows<T> head_rows(T* matrix, const AttentionKernel& kernel, std::int64_t stride,
                      std::int64_t batch, std::int64_t head) {
  return {matrix + batch * kernel.length * stride + head * kernel.head_dim, stride};
}

/// Copies rows to [length][padded width], the padding 0.
template <class T>
void pack_rows(HeadRows<const T> from, const AttentionKernel& kernel, float* to) {
  const std::int64_t width = padded_width(kernel.head_dim);
  for (std::int64_t t = 0; t < kernel.length; ++t, to += width) {
    for_vectors(0, kernel.head_dim,
                [&](std::int64_t i, auto part) { store(to + i, load(from.row(t) + i, part)); });
  }
}

/// Transposes `lanes` rows from `first` on, or as many as there are, to columns `block` apart.
template <class T>
SHARDSCOPE_INLINE void transpose_rows(HeadRows<const T> from, const AttentionKernel& kernel,
                                      std::int64_t first, float* to) {
  for_vectors(0, kernel.head_dim, [&](std::int64_t d, auto part) {
    Floats rows[lanes];
    for (int i = 0; i < lanes; ++i)
      rows[i] = first + i < kernel.length ? load(from.row(first + i) + d, part) : Floats{};
    transpose(rows);
    const std::int64_t left = kernel.head_dim - d;
    for (int i = 0; i < lanes && i < left; ++i) store(to + (d + i) * block, rows[i]);
  });
}

/// Transposes each block of rows to [blocks][head_dim][block], the padding 0.
template <class T>
void pack_transposed(HeadRows<const T> from, const AttentionKernel& kernel, float* to) {
  for (std::int64_t begin = 0; begin < kernel.length; begin += block, to += kernel.head_dim * block)
    for (std::int64_t t = 0; t < block; t += lanes) transpose_rows(from, kernel, begin + t, to + t);
}

/// The product of one block of queries (or of their gradients) with one packed block of keys (or
/// values): scores[rows, block] = a[rows, head_dim] transposed[head_dim, block]. On the diagonal,
/// vectors of columns that lie wholly above it are left as they are.
inline void block_scores(HeadRows<const float> a, const float* transposed, float* scores,
                         std::int64_t head_dim, std::int64_t rows, bool diagonal) {
  for (std::int64_t row = 0; row < rows; row += tile_rows) {
    const std::int64_t count = rows - row < tile_rows ? rows - row : tile_rows;
    const std::int64_t needed = (row + count + lanes - 1) / lanes;
    multiply_strip({.a = a.row(row),
                    .a_row = a.stride,
                    .a_depth = 1,
                    .b = transposed,
                    .b_stride = block,
                    .c = scores + row * block,
                    .c_stride = block,
                    .depth = head_dim},
                   count, diagonal ? needed : block_vectors_of_keys);
  }
}

/// to[rows, width] += weights[rows, block] values[block, width]; on the diagonal only keys up to
/// the row's own.
inline void add_weighted_values(const float* weights, const float* values, float* to,
                                std::int64_t width, std::int64_t rows, bool diagonal) {
  for (std::int64_t row = 0; row < rows; row += tile_rows) {
    const std::int64_t count = rows - row < tile_rows ? rows - row : tile_rows;
    multiply_strip({.a = weights + row * block,
                    .a_row = block,
                    .a_depth = 1,
                    .b = values,
                    .b_stride = width,
                    .c = to + row * width,
                    .c_stride = width,
                    .depth = diagonal ? row + count : block,
                    .accumulate = true},
                   count, width / lanes);
  }
}

/// to[keys, width] += weights[rows, keys]^T values[rows, width]; on the diagonal only rows from the
/// key's own.
inline void add_transposed_weighted(const float* weights, const float* values, float* to,
                                    std::int64_t width, std::int64_t rows, std::int64_t keys,
                                    bool diagonal) {
  for (std::int64_t key = 0; key < keys; key += tile_rows) {
    const std::int64_t count = keys - key < tile_rows ? keys - key : tile_rows;
    const std::int64_t first = diagonal ? key : 0;
    multiply_strip({.a = weights + first * block + key,
                    .a_row = 1,
                    .a_depth = block,
                    .b = values + first * width,
                    .b_stride = width,
                    .c = to + key * width,
                    .c_stride = width,
                    .depth = rows - first,
                    .accumulate = true},
                   count, width / lanes);
  }
}

/// Holds where key column `first + lane` may be seen from `row`.
SHARDSCOPE_INLINE Ints visible(std::int64_t first, std::int64_t row) {
  Ints lane;
  for (int i = 0; i < lanes; ++i) lane[i] = i;
  return lane <= static_cast<std::int32_t>(row - first);
}

inline void zero(float* to, std::int64_t elements) {
  std::memset(to, 0, sizeof(float) * static_cast<std::size_t>(elements));
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
