// Causal attention on tensor cores, forward: the scores of a tile of queries with a tile of keys
// never leave the registers of their warp.
//
// A score that is masked still has its value in the product, with weight 0: a NaN among the values
// reaches the earlier rows of its tile, too.
// Source: Dao, FlashAttention-2 (2023), algorithm 1.
#pragma once

#include "backend/cuda/kernels/flash_tile.h"

namespace shardscope::cuda {

/// A block makes `rows` queries of one head, 16 x row_tiles a warp, over `keys` keys at a time.
template <int dim>
struct FlashForwardTile {
  static constexpr int row_tiles = 2;
  static constexpr int rows = flash_warps * 16 * row_tiles;
  static constexpr int keys = dim <= 80 ? 64 : 32;
  /// queries [rows]; keys, values [keys]
  static constexpr std::int64_t shared_bytes =
      SharedRows<dim>::bytes(rows) + 2 * SharedRows<dim>::bytes(keys);
};

template <int dim>
struct FlashForward {
  using Tile = FlashForwardTile<dim>;
  using Scores = Accumulators<Tile::row_tiles, Tile::keys / 8>;
  using Sums = Accumulators<Tile::row_tiles, dim / 8>;
  static constexpr int most_threads = flash_threads;

  AttentionShape shape;
  const Bfloat16* q;
  const Bfloat16* k;
  const Bfloat16* v;
  Bfloat16* y;
  float* lse;

  /// Of the rows of a lane: the largest score so far, and this lane's part of the sum of
  /// exponentials.
  struct RowState {
    float largest[Sums::rows_of_lane];
    float total[Sums::rows_of_lane];
  };

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    // The last queries see the most keys and begin first.
    const auto [b, head, kv_head, first_query] =
        query_tile(thread.blocks() - 1 - thread.block(), Tile::rows, shape);
    const HeadRows<const Bfloat16> from_keys = key_rows(k, shape, b, kv_head);
    const HeadRows<const Bfloat16> from_values = key_rows(v, shape, b, kv_head);
    const SharedRows<dim> queries{thread.template shared<Bfloat16>()};
    const SharedRows<dim> keys = queries.from(Tile::rows), values = keys.from(Tile::keys);
    const int first_row = thread.index() / warp_size * 16 * Tile::row_tiles;
    const std::int64_t last_query = first_query + first_row + 16 * Tile::row_tiles - 1;

    Sums sums;
    RowState state;
    sums.clear();
    for (int i = 0; i < Sums::rows_of_lane; ++i) state.largest[i] = -INFINITY, state.total[i] = 0;
    copy_rows<Tile::rows>(thread, query_rows(q, shape, b, head), first_query, queries);
    copy_rows<Tile::keys>(thread, from_keys, 0, keys);
    thread.commit_copies();
    const std::int64_t end =
        first_query + Tile::rows < shape.length ? first_query + Tile::rows : shape.length;
    for (std::int64_t first_key = 0; first_key < end; first_key += Tile::keys) {
      const bool sees = first_key <= last_query;  // the warp sees some of these keys
      thread.template wait_for_copies<0>();
      thread.sync();
      copy_rows<Tile::keys>(thread, from_values, first_key, values);
      thread.commit_copies();
      Scores scores;
      if (sees) {
        multiply_transposed(thread, LeftRowsInPlace<Tile::row_tiles, dim>{queries, first_row}, keys,
                            scores);
      }
      thread.template wait_for_copies<0>();
      thread.sync();
      if (first_key + Tile::keys < end) {
        copy_rows<Tile::keys>(thread, from_keys, first_key + Tile::keys, keys);
        thread.commit_copies();
      }
      if (!sees) continue;
      mask(thread, scores, static_cast<int>(first_query - first_key) + first_row);
      weigh(thread, scores, state, sums);
      add_product(thread, scores, values, sums);
    }
    store(thread, sums, state, queries, first_row, b, head, first_query);
  }

 private:
  /// Scores of keys that come after the query become -infinity; `ahead` = first query of the warp -
  /// first key.
  template <class Thread>
  SHARDSCOPE_DEVICE static void mask(const Thread& thread, Scores& scores, int ahead) {
    if (ahead >= Tile::keys) return;
    scores.for_each(thread, [&](float& score, Place at) {
      if (at.column > at.row + ahead) score = -INFINITY;
    });
  }

  /// Scores become e^(scale (score - largest so far)), and what was summed is brought to the new
  /// largest.
  template <class Thread>
  SHARDSCOPE_DEVICE void weigh(Thread& thread, Scores& scores, RowState& state, Sums& sums) const {
    constexpr int rows = Sums::rows_of_lane;
    const float scale = shape.scale * log2_of_e;
    float now[rows], shift[rows], factor[rows];
    SHARDSCOPE_UNROLL
    for (int i = 0; i < rows; ++i) now[i] = state.largest[i];
    scores.for_each(
        thread, [&](float& score, Place at) { now[at.lane_row] = fmaxf(now[at.lane_row], score); });
    SHARDSCOPE_UNROLL
    for (int i = 0; i < rows; ++i) {
      now[i] = fmaxf(now[i], thread.shuffle_xor(now[i], 1));
      now[i] = fmaxf(now[i], thread.shuffle_xor(now[i], 2));
      factor[i] = thread.exp2((state.largest[i] - now[i]) * scale);
      state.largest[i] = now[i];
      state.total[i] *= factor[i];
      shift[i] = now[i] * scale;
    }
    scores.for_each(thread, [&](float& score, Place at) {
      score = thread.exp2(score * scale - shift[at.lane_row]);
      state.total[at.lane_row] += score;
    });
    sums.for_each(thread, [&](float& sum, Place at) { sum *= factor[at.lane_row]; });
  }

  template <class Thread>
  SHARDSCOPE_DEVICE void store(Thread& thread, const Sums& sums, RowState& state,
                               SharedRows<dim> staged, int first_row, std::int64_t b,
                               std::int64_t head, std::int64_t first_query) const {
    const int lane = lane_of(thread);
    float factor[Sums::rows_of_lane];
    SHARDSCOPE_UNROLL
    for (int i = 0; i < Sums::rows_of_lane; ++i) {
      float total = state.total[i] + thread.shuffle_xor(state.total[i], 1);
      total += thread.shuffle_xor(total, 2);
      factor[i] = 1.0f / total;
      const std::int64_t query = first_query + first_row + 8 * i + lane / 4;
      if (lane % 4 == 0 && query < shape.length)
        lse[shape.row_at(b, head, query)] = state.largest[i] * shape.scale + logf(total);
    }
    sums.round_into(thread, staged, first_row, factor);
    thread.sync();
    store_rows<Tile::rows>(thread, staged, output_rows(y, shape, b, head), first_query);
  }
};

template <class Stream>
void flash_attention_forward(const AttentionKernel& kernel, const KernelCall& call,
                             Stream& stream) {
  const AttentionShape shape = attention_shape(kernel);
  with_flash_width(shape.head_dim, [&](auto width) {
    using Tile = FlashForwardTile<decltype(width)::value>;
    stream.launch(FlashForward<decltype(width)::value>{.shape = shape,
                                                       .q = operand<Bfloat16>(call, 0),
                                                       .k = operand<Bfloat16>(call, 1),
                                                       .v = operand<Bfloat16>(call, 2),
                                                       .y = operand<Bfloat16>(call, 3),
                                                       .lse = operand(call, 4)},
                  {.blocks = shape.batch * shape.heads * blocks_for(shape.length, Tile::rows),
                   .threads = flash_threads,
                   .shared_bytes = Tile::shared_bytes});
  });
}

}  // namespace shardscope::cuda
