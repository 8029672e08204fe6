// What forward and backward of the attention on tensor cores share: which calls they fit, the tiles
// of a head's rows on their way through shared memory, and the products of scores.
#pragma once

#include "backend/cuda/kernels/attention_shape.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/tensor_core.h"
#include "core/schedule/kernel.h"

namespace shardscope::cuda {

/// Warps of a block; each has rows of its own.
inline constexpr int flash_warps = 4;
inline constexpr int flash_threads = flash_warps * warp_size;

/// Exponentials are powers of two here.
inline constexpr float log2_of_e = 1.4426950408889634f;

/// The widths that the kernels are compiled for; smaller heads are filled up with zeros.
inline constexpr int flash_widths[] = {64, 80, 96, 128};

/// bfloat16, with rows that start on 16 bytes and heads no wider than the widest.
constexpr bool fits_flash_attention(const AttentionKernel& kernel) {
  const auto in_chunks = [](std::int64_t elements) { return elements % chunk_elements == 0; };
  return kernel.dtype == Dtype::bfloat16 && in_chunks(kernel.head_dim) &&
         kernel.head_dim <= flash_widths[3] && in_chunks(kernel.q_stride) &&
         in_chunks(kernel.kv_stride);
}

template <int width>
struct FlashWidth {
  static constexpr int value = width;
};

/// Calls `body(FlashWidth<w>)` with the narrowest width that holds a head.
template <class Body>
void with_flash_width(std::int64_t head_dim, const Body& body) {
  if (head_dim <= 64) return body(FlashWidth<64>{});
  if (head_dim <= 80) return body(FlashWidth<80>{});
  if (head_dim <= 96) return body(FlashWidth<96>{});
  body(FlashWidth<128>{});
}

/// The rows of one head of one sequence; row t starts at data + t * stride.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride, length, head_dim;
};

template <class T>
SHARDSCOPE_DEVICE HeadRows<T> query_rows(T* q, const AttentionShape& shape, std::int64_t b,
                                         std::int64_t head) {
  return {q + shape.q_at(b, 0, head), shape.q_stride, shape.length, shape.head_dim};
}
template <class T>
SHARDSCOPE_DEVICE HeadRows<T> key_rows(T* k, const AttentionShape& shape, std::int64_t b,
                                       std::int64_t kv_head) {
  return {k + shape.kv_at(b, 0, kv_head), shape.kv_stride, shape.length, shape.head_dim};
}
template <class T>
SHARDSCOPE_DEVICE HeadRows<T> output_rows(T* y, const AttentionShape& shape, std::int64_t b,
                                          std::int64_t head) {
  return {y + shape.y_at(b, 0, head), shape.heads * shape.head_dim, shape.length, shape.head_dim};
}

/// Begins to copy `count` rows from `first` on; what lies beyond the sequence or the head becomes
/// zero.
template <int count, class Thread, int dim>
SHARDSCOPE_DEVICE void copy_rows(Thread& thread, const HeadRows<const Bfloat16>& from,
                                 std::int64_t first, SharedRows<dim> to) {
  constexpr int chunks = dim / chunk_elements;
  for (int i = thread.index(); i < count * chunks; i += flash_threads) {
    const int row = i / chunks, column = i % chunks * chunk_elements;
    const bool present = first + row < from.length && column < from.head_dim;
    thread.copy_async(to.at(row, column),
                      present ? from.data + (first + row) * from.stride + column : from.data,
                      present);
  }
}

/// Writes `count` rows from shared memory to those from `first` on, as far as there are any.
template <int count, class Thread, int dim>
SHARDSCOPE_DEVICE void store_rows(Thread& thread, SharedRows<dim> from,
                                  const HeadRows<Bfloat16>& to, std::int64_t first) {
  constexpr int chunks = dim / chunk_elements;
  for (int i = thread.index(); i < count * chunks; i += flash_threads) {
    const int row = i / chunks, column = i % chunks * chunk_elements;
    if (first + row < to.length && column < to.head_dim)
      chunk_at(to.data + (first + row) * to.stride + column) = chunk_at(from.at(row, column));
  }
}

}  // namespace shardscope::cuda
