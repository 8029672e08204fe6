// Where the rows of queries, keys and values of causal attention lie.
#pragma once

#include "backend/cuda/kernels/simt.h"
#include "core/schedule/kernel.h"

namespace shardscope::cuda {

/// Shapes and strides of one call. Row t of sequence b, head h of q starts at
/// ((b * length + t) * q_stride + h * head_dim), of k and v with kv_stride, of y with heads *
/// head_dim.
struct AttentionShape {
  std::int64_t batch, length, heads, kv_heads, head_dim, q_stride, kv_stride;
  float scale;

  SHARDSCOPE_DEVICE std::int64_t q_at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return (b * length + t) * q_stride + h * head_dim;
  }
  SHARDSCOPE_DEVICE std::int64_t kv_at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return (b * length + t) * kv_stride + h * head_dim;
  }
  SHARDSCOPE_DEVICE std::int64_t y_at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return ((b * length + t) * heads + h) * head_dim;
  }
  SHARDSCOPE_DEVICE std::int64_t row_at(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return (b * heads + h) * length + t;
  }
};

/// The queries of a block: `tile` of one head of one sequence.
struct QueryTile {
  std::int64_t batch, head, kv_head, first_query;
};
SHARDSCOPE_DEVICE QueryTile query_tile(std::int64_t block, int tile, const AttentionShape& shape) {
  const std::int64_t tiles = (shape.length + tile - 1) / tile;
  const std::int64_t head = block / tiles % shape.heads;
  return {.batch = block / tiles / shape.heads,
          .head = head,
          .kv_head = head / (shape.heads / shape.kv_heads),
          .first_query = block % tiles * tile};
}

inline AttentionShape attention_shape(const AttentionKernel& kernel) {
  return {.batch = kernel.batch,
          .length = kernel.length,
          .heads = kernel.heads,
          .kv_heads = kernel.kv_heads,
          .head_dim = kernel.head_dim,
          .q_stride = kernel.q_stride,
          .kv_stride = kernel.kv_stride,
          .scale = static_cast<float>(kernel.scale)};
}

}  // namespace shardscope::cuda
