// Causal attention without the matrix of scores ever whole: right for every type, head size,
// grouping and stride, deterministic. What the faster ones are checked against, and what runs where
// they do not fit.
//
// Source of the recurrences: Dao et al., FlashAttention (2022), algorithms 1 and 4.
#pragma once

#include "backend/cuda/kernels/attention_shape.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"

namespace shardscope::cuda {

/// Rows `first` .. `first` + `rows` - 1 of a head into shared memory; rows beyond `length` as
/// zeros.
template <class Thread, class T, class At>
SHARDSCOPE_DEVICE void load_rows(Thread& thread, const T* from, float* to, std::int64_t first,
                                 int rows, const AttentionShape& shape, const At& at) {
  for_block(thread, rows * shape.head_dim, [&](std::int64_t i) {
    const std::int64_t t = first + i / shape.head_dim;
    to[i] = t < shape.length ? get(from[at(t) + i % shape.head_dim]) : 0.0f;
  });
}

SHARDSCOPE_DEVICE float dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// A block makes `tile` queries of one head; a lane stands for one key of a tile of keys.
template <class T>
struct AttentionForward {
  static constexpr int tile = warp_size;
  AttentionShape shape;
  const T* q;
  const T* k;
  const T* v;
  T* y;
  float* lse;

  /// queries, keys, values and sums [tile][D]; scores [tile][tile]; largest, total, factor [tile]
  static std::int64_t shared_bytes(std::int64_t head_dim) {
    return (4 * tile * head_dim + tile * tile + 3 * tile) *
           static_cast<std::int64_t>(sizeof(float));
  }

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t dim = shape.head_dim;
    const auto [b, head, kv_head, first_query] = query_tile(thread.block(), tile, shape);
    auto* queries = thread.template shared<float>();
    float* keys = queries + tile * dim;
    float* values = keys + tile * dim;
    float* sums = values + tile * dim;
    float* scores = sums + tile * dim;
    float* largest = scores + tile * tile;
    float* total = largest + tile;
    float* factor = total + tile;

    load_rows(thread, q, queries, first_query, tile, shape,
              [&](std::int64_t t) { return shape.q_at(b, t, head); });
    for_block(thread, tile * dim, [&](std::int64_t i) { sums[i] = 0; });
    for_block(thread, tile, [&](std::int64_t i) { largest[i] = -INFINITY, total[i] = 0; });
    for (std::int64_t first_key = 0; first_key <= first_query; first_key += tile) {
      const auto kv_at = [&](std::int64_t t) { return shape.kv_at(b, t, kv_head); };
      thread.sync();
      load_rows(thread, k, keys, first_key, tile, shape, kv_at);
      load_rows(thread, v, values, first_key, tile, shape, kv_at);
      thread.sync();
      weigh(thread, queries, keys, first_query, first_key, scores, largest, total, factor);
      thread.sync();
      for_block(thread, tile * dim, [&](std::int64_t i) {
        const std::int64_t row = i / dim;
        float sum = sums[i] * factor[row];
        // Later keys have no part in it, not even a NaN's.
        for (std::int64_t key = 0; key < tile && first_key + key <= first_query + row; ++key)
          sum += scores[row * tile + key] * values[key * dim + i % dim];
        sums[i] = sum;
      });
    }
    thread.sync();
    for_block(thread, tile * dim, [&](std::int64_t i) {
      const std::int64_t row = i / dim, t = first_query + row;
      if (t < shape.length) put(y[shape.y_at(b, t, head) + i % dim], sums[i] / total[row]);
    });
    for_block(thread, tile, [&](std::int64_t row) {
      const std::int64_t t = first_query + row;
      if (t < shape.length) lse[shape.row_at(b, head, t)] = largest[row] + logf(total[row]);
    });
  }

 private:
  /// A warp a row: scores become e^(score - largest so far), with the factor on what was summed.
  template <class Thread>
  SHARDSCOPE_DEVICE void weigh(Thread& thread, const float* queries, const float* keys,
                               std::int64_t first_query, std::int64_t first_key, float* scores,
                               float* largest, float* total, float* factor) const {
    const int lane = thread.index() % warp_size, warps = thread.count() / warp_size;
    for (int row = thread.index() / warp_size; row < tile; row += warps) {
      const bool seen = first_key + lane <= first_query + row && first_key + lane < shape.length;
      const float score = seen ? shape.scale * dot(queries + row * shape.head_dim,
                                                   keys + lane * shape.head_dim, shape.head_dim)
                               : -INFINITY;
      const float old = largest[row];
      const float here = warp_largest(thread, score);
      const float now = here > old || here != here ? here : old;
      const float weight = seen ? expf(score - now) : 0.0f;
      const float sum = warp_sum(thread, weight);
      scores[row * tile + lane] = weight;
      if (lane != 0) continue;
      factor[row] = expf(old - now);
      total[row] = total[row] * factor[row] + sum;
      largest[row] = now;
    }
  }
};

/// delta[b,h,t] = dy . y, added in the order of `dot`: where a query sees one key only, y is v, and
/// the gradient of its score is 0 exactly.
template <class T>
struct AttentionDelta {
  AttentionShape shape;
  const T* dy;
  const T* y;
  float* delta;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, shape.batch * shape.heads * shape.length, [&](std::int64_t row) {
      const std::int64_t t = row % shape.length, head = row / shape.length % shape.heads;
      const std::int64_t at = shape.y_at(row / shape.length / shape.heads, t, head);
      float sum = 0;
      for (std::int64_t i = 0; i < shape.head_dim; ++i) sum += get(dy[at + i]) * get(y[at + i]);
      delta[row] = sum;
    });
  }
};

/// Queries and keys of a tile in the backward; a thread stands for a pair.
inline constexpr int backward_tile = 16;

/// Of one query and one key: p, and scale p (dp - delta), the gradient of their score.
struct ScoreGradient {
  float probability, gradient;
};

template <class T>
struct AttentionBackward {
  AttentionShape shape;
  const T* dy;
  const T* q;
  const T* k;
  const T* v;
  const float* lse;
  const float* delta;
  T* dq;
  T* dk;
  T* dv;

  /// Of the query in row `row` of its tile and the key in row `key` of its.
  SHARDSCOPE_DEVICE ScoreGradient pair(std::int64_t b, std::int64_t head, std::int64_t query,
                                       std::int64_t key, const float* q_row, const float* dy_row,
                                       const float* k_row, const float* v_row) const {
    if (query >= shape.length || key > query) return {0, 0};
    const std::int64_t row = shape.row_at(b, head, query);
    const float p = expf(shape.scale * dot(q_row, k_row, shape.head_dim) - lse[row]);
    const float dp = dot(dy_row, v_row, shape.head_dim);
    return {p, shape.scale * p * (dp - delta[row])};
  }
};

/// A block makes dq of one tile of queries of one head.
template <class T>
struct AttentionQueryGradient {
  static constexpr int tile = backward_tile;
  AttentionBackward<T> in;

  /// queries, their gradients, keys, values and sums [tile][D]; gradients of scores [tile][tile]
  static std::int64_t shared_bytes(std::int64_t head_dim) {
    return (5 * tile * head_dim + tile * tile) * static_cast<std::int64_t>(sizeof(float));
  }

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const AttentionShape& shape = in.shape;
    const std::int64_t dim = shape.head_dim;
    const auto [b, head, kv_head, first_query] = query_tile(thread.block(), tile, shape);
    auto* queries = thread.template shared<float>();
    float* outputs = queries + tile * dim;
    float* keys = outputs + tile * dim;
    float* values = keys + tile * dim;
    float* sums = values + tile * dim;
    float* gradients = sums + tile * dim;
    const int row = thread.index() / tile, column = thread.index() % tile;

    load_rows(thread, in.q, queries, first_query, tile, shape,
              [&](std::int64_t t) { return shape.q_at(b, t, head); });
    load_rows(thread, in.dy, outputs, first_query, tile, shape,
              [&](std::int64_t t) { return shape.y_at(b, t, head); });
    for_block(thread, tile * dim, [&](std::int64_t i) { sums[i] = 0; });
    for (std::int64_t first_key = 0; first_key <= first_query; first_key += tile) {
      const auto kv_at = [&](std::int64_t t) { return shape.kv_at(b, t, kv_head); };
      thread.sync();
      load_rows(thread, in.k, keys, first_key, tile, shape, kv_at);
      load_rows(thread, in.v, values, first_key, tile, shape, kv_at);
      thread.sync();
      gradients[row * tile + column] =
          in.pair(b, head, first_query + row, first_key + column, queries + row * dim,
                  outputs + row * dim, keys + column * dim, values + column * dim)
              .gradient;
      thread.sync();
      for_block(thread, tile * dim, [&](std::int64_t i) {
        const std::int64_t of = i / dim;
        float sum = sums[i];
        for (std::int64_t key = 0; key < tile && first_key + key <= first_query + of; ++key)
          sum += gradients[of * tile + key] * keys[key * dim + i % dim];
        sums[i] = sum;
      });
    }
    thread.sync();
    for_block(thread, tile * dim, [&](std::int64_t i) {
      const std::int64_t t = first_query + i / dim;
      if (t < shape.length) put(in.dq[shape.q_at(b, t, head) + i % dim], sums[i]);
    });
  }
};

/// A block makes dk and dv of one tile of keys of one key-value head, over all heads that share it.
template <class T>
struct AttentionKeyGradient {
  static constexpr int tile = backward_tile;
  AttentionBackward<T> in;

  /// keys, values, their gradients, queries and gradients of outputs [tile][D]; probabilities and
  /// gradients of scores [tile][tile]
  static std::int64_t shared_bytes(std::int64_t head_dim) {
    return (6 * tile * head_dim + 2 * tile * tile) * static_cast<std::int64_t>(sizeof(float));
  }

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const AttentionShape& shape = in.shape;
    const std::int64_t dim = shape.head_dim, tiles = blocks_for(shape.length, tile);
    const std::int64_t first_key = thread.block() % tiles * tile;
    const std::int64_t kv_head = thread.block() / tiles % shape.kv_heads;
    const std::int64_t b = thread.block() / tiles / shape.kv_heads;
    const std::int64_t group = shape.heads / shape.kv_heads;
    auto* keys = thread.template shared<float>();
    float* values = keys + tile * dim;
    float* key_sums = values + tile * dim;
    float* value_sums = key_sums + tile * dim;
    float* queries = value_sums + tile * dim;
    float* outputs = queries + tile * dim;
    float* probabilities = outputs + tile * dim;
    float* gradients = probabilities + tile * tile;
    const int row = thread.index() / tile, column = thread.index() % tile;

    const auto kv_at = [&](std::int64_t t) { return shape.kv_at(b, t, kv_head); };
    load_rows(thread, in.k, keys, first_key, tile, shape, kv_at);
    load_rows(thread, in.v, values, first_key, tile, shape, kv_at);
    for_block(thread, 2 * tile * dim, [&](std::int64_t i) { key_sums[i] = 0; });
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t first_query = first_key; first_query < shape.length; first_query += tile) {
        thread.sync();
        load_rows(thread, in.q, queries, first_query, tile, shape,
                  [&](std::int64_t t) { return shape.q_at(b, t, head); });
        load_rows(thread, in.dy, outputs, first_query, tile, shape,
                  [&](std::int64_t t) { return shape.y_at(b, t, head); });
        thread.sync();
        const ScoreGradient both =
            in.pair(b, head, first_query + row, first_key + column, queries + row * dim,
                    outputs + row * dim, keys + column * dim, values + column * dim);
        probabilities[row * tile + column] = both.probability;
        gradients[row * tile + column] = both.gradient;
        thread.sync();
        for_block(thread, tile * dim, [&](std::int64_t i) {
          const std::int64_t key = i / dim, at = i % dim;
          // Earlier queries have no part in it, not even a NaN's.
          const std::int64_t from = first_query < first_key + key ? key : 0;
          for (std::int64_t query = from; query < tile; ++query) {
            value_sums[i] += probabilities[query * tile + key] * outputs[query * dim + at];
            key_sums[i] += gradients[query * tile + key] * queries[query * dim + at];
          }
        });
      }
    }
    thread.sync();
    for_block(thread, tile * dim, [&](std::int64_t i) {
      const std::int64_t t = first_key + i / dim;
      if (t >= shape.length) return;
      put(in.dk[kv_at(t) + i % dim], key_sums[i]);
      put(in.dv[kv_at(t) + i % dim], value_sums[i]);
    });
  }
};

template <class Stream>
void plain_attention_forward(const AttentionKernel& kernel, const KernelCall& call,
                             Stream& stream) {
  const AttentionShape shape = attention_shape(kernel);
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    using Body = AttentionForward<T>;
    stream.launch(Body{.shape = shape,
                       .q = operand<T>(call, 0),
                       .k = operand<T>(call, 1),
                       .v = operand<T>(call, 2),
                       .y = operand<T>(call, 3),
                       .lse = operand(call, 4)},
                  {.blocks = shape.batch * shape.heads * blocks_for(shape.length, Body::tile),
                   .shared_bytes = Body::shared_bytes(shape.head_dim)});
  });
}

template <class T, class Stream>
void launch_plain_attention_backward(const AttentionBackward<T>& body, Stream& stream) {
  constexpr int tile = backward_tile;
  const AttentionShape& shape = body.shape;
  const std::int64_t tiles = shape.batch * blocks_for(shape.length, tile);
  stream.launch(AttentionQueryGradient<T>{body},
                {.blocks = tiles * shape.heads,
                 .threads = tile * tile,
                 .shared_bytes = AttentionQueryGradient<T>::shared_bytes(shape.head_dim)});
  stream.launch(AttentionKeyGradient<T>{body},
                {.blocks = tiles * shape.kv_heads,
                 .threads = tile * tile,
                 .shared_bytes = AttentionKeyGradient<T>::shared_bytes(shape.head_dim)});
}

template <class Stream>
void plain_attention_backward(const AttentionKernel& kernel, const KernelCall& call,
                              Stream& stream) {
  const AttentionShape shape = attention_shape(kernel);
  float* delta = operand(call, 9);
  const std::int64_t rows = shape.batch * shape.heads * shape.length;
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    stream.launch(AttentionDelta<T>{shape, operand<T>(call, 0), operand<T>(call, 4), delta},
                  elementwise_shape(rows));
    launch_plain_attention_backward(AttentionBackward<T>{.shape = shape,
                                                         .dy = operand<T>(call, 0),
                                                         .q = operand<T>(call, 1),
                                                         .k = operand<T>(call, 2),
                                                         .v = operand<T>(call, 3),
                                                         .lse = operand(call, 5),
                                                         .delta = delta,
                                                         .dq = operand<T>(call, 6),
                                                         .dk = operand<T>(call, 7),
                                                         .dv = operand<T>(call, 8)},
                                    stream);
  });
}

}  // namespace shardscope::cuda
