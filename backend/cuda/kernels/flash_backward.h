// Causal attention on tensor cores, backward, in a fixed order: one pass over queries makes dq, one
// over keys dk and dv. Each makes the scores anew from the log of their sum of exponentials.
//
// A block keeps two matrices of its own rows (q and dy, or k and v) and streams two others past
// them (k and v, or q and dy). Source: Dao, FlashAttention-2 (2023), algorithm 2, without the sum
// over blocks in memory.
#pragma once

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/flash_tile.h"

namespace shardscope::cuda {

/// delta[b,h,t] = dy . y. Eight lanes a row.
struct FlashDelta {
  static constexpr int lanes_of_row = 8;
  AttentionShape shape;
  const Bfloat16* dy;
  const Bfloat16* y;
  float* delta;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t rows = shape.batch * shape.heads * shape.length;
    const std::int64_t row =
        (static_cast<std::int64_t>(thread.block()) * thread.count() + thread.index()) /
        lanes_of_row;
    const int lane = thread.index() % lanes_of_row;
    float sum = 0;
    if (row < rows) {
      const std::int64_t t = row % shape.length, head = row / shape.length % shape.heads;
      const std::int64_t at = shape.y_at(row / shape.length / shape.heads, t, head);
      for (std::int64_t i = lane * chunk_elements; i < shape.head_dim;
           i += lanes_of_row * chunk_elements) {
        const Chunk a = chunk_at(dy + at + i), b = chunk_at(y + at + i);
        SHARDSCOPE_UNROLL
        for (int e = 0; e < chunk_elements; ++e) sum += a.element(e) * b.element(e);
      }
    }
    for (int mask = lanes_of_row / 2; mask > 0; mask /= 2) sum += thread.shuffle_xor(sum, mask);
    if (row < rows && lane == 0) delta[row] = sum;
  }
};

struct FlashBackward {
  AttentionShape shape;
  const Bfloat16* dy;
  const Bfloat16* q;
  const Bfloat16* k;
  const Bfloat16* v;
  const float* lse;
  const float* delta;
  Bfloat16* dq;
  Bfloat16* dk;
  Bfloat16* dv;

  SHARDSCOPE_DEVICE float scale_of_power() const { return shape.scale * log2_of_e; }
};

/// A block's own rows and those that stream by, in two places in turn.
template <int dim, int own_row_tiles, int streamed_rows>
struct FlashBackwardTile {
  static constexpr int row_tiles = own_row_tiles;
  static constexpr int rows = flash_warps * 16 * row_tiles;
  static constexpr int streamed = streamed_rows;
  static constexpr std::int64_t shared_bytes =
      2 * SharedRows<dim>::bytes(rows) + 4 * SharedRows<dim>::bytes(streamed);
};
template <int dim>
using FlashQueryTile = FlashBackwardTile<dim, dim <= 80 ? 2 : 1, 32>;
template <int dim>
using FlashKeyTile = FlashBackwardTile<dim, 1, dim <= 80 ? 64 : 32>;

/// The shared memory of a block: its own two matrices, and the streamed ones.
template <int dim, class Tile>
struct FlashBackwardMemory {
  SharedRows<dim> own[2];
  SharedRows<dim> places;

  template <class Thread>
  SHARDSCOPE_DEVICE explicit FlashBackwardMemory(Thread& thread) {
    own[0] = {thread.template shared<Bfloat16>()};
    own[1] = own[0].from(Tile::rows);
    places = own[1].from(Tile::rows);
  }
  SHARDSCOPE_DEVICE SharedRows<dim> streamed(std::int64_t turn, int which) const {
    return places.from(static_cast<int>(turn % 2 * 2 + which) * Tile::streamed);
  }
};

/// A block makes dq of `Tile::rows` queries of one head.
template <int dim>
struct FlashQueryGradient {
  using Tile = FlashQueryTile<dim>;
  using Scores = Accumulators<Tile::row_tiles, Tile::streamed / 8>;
  using Sums = Accumulators<Tile::row_tiles, dim / 8>;
  static constexpr int most_threads = flash_threads;
  FlashBackward in;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const AttentionShape& shape = in.shape;
    const auto [b, head, kv_head, first_query] =
        query_tile(thread.blocks() - 1 - thread.block(), Tile::rows, shape);
    const FlashBackwardMemory<dim, Tile> memory(thread);
    const int first_row = thread.index() / warp_size * 16 * Tile::row_tiles;
    const HeadRows<const Bfloat16> keys = key_rows(in.k, shape, b, kv_head);
    const HeadRows<const Bfloat16> values = key_rows(in.v, shape, b, kv_head);
    const auto copy_turn = [&](std::int64_t turn) {
      copy_rows<Tile::streamed>(thread, keys, turn * Tile::streamed, memory.streamed(turn, 0));
      copy_rows<Tile::streamed>(thread, values, turn * Tile::streamed, memory.streamed(turn, 1));
    };
    copy_rows<Tile::rows>(thread, query_rows(in.q, shape, b, head), first_query, memory.own[0]);
    copy_rows<Tile::rows>(thread, output_rows(in.dy, shape, b, head), first_query, memory.own[1]);
    copy_turn(0);
    thread.commit_copies();

    Sums sums;
    sums.clear();
    float lse[Sums::rows_of_lane], delta[Sums::rows_of_lane];
    load_row_values(thread, b, head, first_query + first_row, lse, delta);
    const std::int64_t end =
        first_query + Tile::rows < shape.length ? first_query + Tile::rows : shape.length;
    const std::int64_t turns = (end + Tile::streamed - 1) / Tile::streamed;
    for (std::int64_t turn = 0; turn < turns; ++turn) {
      if (turn + 1 < turns) copy_turn(turn + 1);
      thread.commit_copies();
      thread.template wait_for_copies<1>();
      thread.sync();
      const int ahead = static_cast<int>(first_query - turn * Tile::streamed) + first_row;
      if (ahead + 16 * Tile::row_tiles > 0)
        add_turn(thread, memory, first_row, turn, ahead, lse, delta, sums);
      thread.sync();
    }
    float factor[Sums::rows_of_lane];
    for (int i = 0; i < Sums::rows_of_lane; ++i) factor[i] = shape.scale;
    sums.round_into(thread, memory.own[0], first_row, factor);
    thread.sync();
    store_rows<Tile::rows>(thread, memory.own[0], query_rows(in.dq, shape, b, head), first_query);
  }

 private:
  /// Of the rows of this lane: lse in powers of two, and delta.
  template <class Thread>
  SHARDSCOPE_DEVICE void load_row_values(const Thread& thread, std::int64_t b, std::int64_t head,
                                         std::int64_t first_query, float (&lse)[Sums::rows_of_lane],
                                         float (&delta)[Sums::rows_of_lane]) const {
    SHARDSCOPE_UNROLL
    for (int i = 0; i < Sums::rows_of_lane; ++i) {
      const std::int64_t query = first_query + 8 * i + lane_of(thread) / 4;
      const bool present = query < in.shape.length;
      const std::int64_t at = in.shape.row_at(b, head, present ? query : 0);
      lse[i] = present ? in.lse[at] * log2_of_e : 0.0f;
      delta[i] = present ? in.delta[at] : 0.0f;
    }
  }

  /// Adds the gradient of these scores times their keys; `ahead` = first query of the warp - first
  /// key.
  template <class Thread>
  SHARDSCOPE_DEVICE void add_turn(Thread& thread, const FlashBackwardMemory<dim, Tile>& memory,
                                  int first_row, std::int64_t turn, int ahead,
                                  const float (&lse)[Sums::rows_of_lane],
                                  const float (&delta)[Sums::rows_of_lane], Sums& sums) const {
    using Left = LeftRowsInPlace<Tile::row_tiles, dim>;
    Scores scores, gradients;
    multiply_transposed(thread, Left{memory.own[0], first_row}, memory.streamed(turn, 0), scores);
    multiply_transposed(thread, Left{memory.own[1], first_row}, memory.streamed(turn, 1),
                        gradients);
    const float scale = in.scale_of_power();
    scores.for_each(thread, [&](float& score, Place at) {
      score = thread.exp2(score * scale - lse[at.lane_row]);
    });
    if (ahead < Tile::streamed) {
      scores.for_each(thread, [&](float& score, Place at) {
        if (at.column > at.row + ahead) score = 0;
      });
    }
    gradients.for_each_with(thread, scores, [&](float& gradient, float p, Place at) {
      gradient = p * (gradient - delta[at.lane_row]);
    });
    add_product(thread, gradients, memory.streamed(turn, 0), sums);
  }
};

/// A block makes dk and dv of `Tile::rows` keys of one key-value head, over all heads that share
/// it.
template <int dim>
struct FlashKeyGradient {
  using Tile = FlashKeyTile<dim>;
  using Scores = Accumulators<Tile::row_tiles, Tile::streamed / 8>;  ///< transposed
  using Sums = Accumulators<Tile::row_tiles, dim / 8>;
  static constexpr int most_threads = flash_threads;
  FlashBackward in;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const AttentionShape& shape = in.shape;
    const std::int64_t tiles = (shape.length + Tile::rows - 1) / Tile::rows;
    const std::int64_t first_key = thread.block() % tiles * Tile::rows;
    const std::int64_t kv_head = thread.block() / tiles % shape.kv_heads;
    const std::int64_t b = thread.block() / tiles / shape.kv_heads;
    const std::int64_t group = shape.heads / shape.kv_heads;
    const FlashBackwardMemory<dim, Tile> memory(thread);
    const int first_row = thread.index() / warp_size * 16 * Tile::row_tiles;

    // Queries before the first key see none of the block's. A turn is a tile of queries of a head.
    const std::int64_t first_tile = first_key / Tile::streamed;
    const std::int64_t tiles_of_head =
        (shape.length + Tile::streamed - 1) / Tile::streamed - first_tile;
    const auto head_of = [&](std::int64_t turn) { return kv_head * group + turn / tiles_of_head; };
    const auto query_of = [&](std::int64_t turn) {
      return (first_tile + turn % tiles_of_head) * Tile::streamed;
    };
    const auto copy_turn = [&](std::int64_t turn) {
      copy_rows<Tile::streamed>(thread, query_rows(in.q, shape, b, head_of(turn)), query_of(turn),
                                memory.streamed(turn, 0));
      copy_rows<Tile::streamed>(thread, output_rows(in.dy, shape, b, head_of(turn)), query_of(turn),
                                memory.streamed(turn, 1));
    };
    copy_rows<Tile::rows>(thread, key_rows(in.k, shape, b, kv_head), first_key, memory.own[0]);
    copy_rows<Tile::rows>(thread, key_rows(in.v, shape, b, kv_head), first_key, memory.own[1]);
    copy_turn(0);
    thread.commit_copies();

    Sums key_sums, value_sums;
    key_sums.clear();
    value_sums.clear();
    const std::int64_t turns = group * tiles_of_head;
    for (std::int64_t turn = 0; turn < turns; ++turn) {
      if (turn + 1 < turns) copy_turn(turn + 1);
      thread.commit_copies();
      thread.template wait_for_copies<1>();
      thread.sync();
      const std::int64_t first_query = query_of(turn);
      if (first_query + Tile::streamed > first_key + first_row) {
        add_turn(thread, memory, first_row, turn, shape.row_at(b, head_of(turn), 0), first_query,
                 first_key + first_row, key_sums, value_sums);
      }
      thread.sync();
    }
    store(thread, memory, key_sums, value_sums, first_row, b, kv_head, first_key);
  }

 private:
  /// Adds p^T dy to the values' sums and the gradient of the scores, transposed, times q to the
  /// keys'. `row` is where lse and delta of the head begin.
  template <class Thread>
  SHARDSCOPE_DEVICE void add_turn(Thread& thread, const FlashBackwardMemory<dim, Tile>& memory,
                                  int first_row, std::int64_t turn, std::int64_t row,
                                  std::int64_t first_query, std::int64_t first_key, Sums& key_sums,
                                  Sums& value_sums) const {
    using Left = LeftRowsInPlace<Tile::row_tiles, dim>;
    float lse[Scores::columns_of_lane], delta[Scores::columns_of_lane];
    SHARDSCOPE_UNROLL
    for (int i = 0; i < Scores::columns_of_lane; ++i) {
      const std::int64_t query = first_query + i / 2 * 8 + lane_of(thread) % 4 * 2 + i % 2;
      const bool present = query < in.shape.length;
      // Queries beyond the sequence weigh nothing.
      lse[i] = present ? in.lse[row + query] * log2_of_e : INFINITY;
      delta[i] = present ? in.delta[row + query] : 0.0f;
    }
    Scores scores, gradients;
    multiply_transposed(thread, Left{memory.own[0], first_row}, memory.streamed(turn, 0), scores);
    multiply_transposed(thread, Left{memory.own[1], first_row}, memory.streamed(turn, 1),
                        gradients);
    const float scale = in.scale_of_power();
    const int ahead = static_cast<int>(first_query - first_key);
    scores.for_each(thread, [&](float& score, Place at) {
      score = thread.exp2(score * scale - lse[at.lane_column]);
    });
    if (ahead < 16 * Tile::row_tiles) {
      scores.for_each(thread, [&](float& score, Place at) {
        if (at.row > at.column + ahead) score = 0;
      });
    }
    add_product(thread, scores, memory.streamed(turn, 1), value_sums);
    gradients.for_each_with(thread, scores, [&](float& gradient, float p, Place at) {
      gradient = p * (gradient - delta[at.lane_column]);
    });
    add_product(thread, gradients, memory.streamed(turn, 0), key_sums);
  }

  template <class Thread>
  SHARDSCOPE_DEVICE void store(Thread& thread, const FlashBackwardMemory<dim, Tile>& memory,
                               const Sums& key_sums, const Sums& value_sums, int first_row,
                               std::int64_t b, std::int64_t kv_head, std::int64_t first_key) const {
    const AttentionShape& shape = in.shape;
    float factor[Sums::rows_of_lane], one[Sums::rows_of_lane];
    for (int i = 0; i < Sums::rows_of_lane; ++i) factor[i] = shape.scale, one[i] = 1;
    key_sums.round_into(thread, memory.own[0], first_row, factor);
    value_sums.round_into(thread, memory.own[1], first_row, one);
    thread.sync();
    store_rows<Tile::rows>(thread, memory.own[0], key_rows(in.dk, shape, b, kv_head), first_key);
    store_rows<Tile::rows>(thread, memory.own[1], key_rows(in.dv, shape, b, kv_head), first_key);
  }
};

template <int dim, class Stream>
void launch_flash_backward(const FlashBackward& in, Stream& stream) {
  using OfQueries = FlashQueryTile<dim>;
  using OfKeys = FlashKeyTile<dim>;
  const AttentionShape& shape = in.shape;
  stream.launch(FlashQueryGradient<dim>{in},
                {.blocks = shape.batch * shape.heads * blocks_for(shape.length, OfQueries::rows),
                 .threads = flash_threads,
                 .shared_bytes = OfQueries::shared_bytes});
  stream.launch(FlashKeyGradient<dim>{in},
                {.blocks = shape.batch * shape.kv_heads * blocks_for(shape.length, OfKeys::rows),
                 .threads = flash_threads,
                 .shared_bytes = OfKeys::shared_bytes});
}

template <class Stream>
void flash_attention_backward(const AttentionKernel& kernel, const KernelCall& call,
                              Stream& stream) {
  const AttentionShape shape = attention_shape(kernel);
  float* delta = operand(call, 9);
  const FlashBackward in{.shape = shape,
                         .dy = operand<Bfloat16>(call, 0),
                         .q = operand<Bfloat16>(call, 1),
                         .k = operand<Bfloat16>(call, 2),
                         .v = operand<Bfloat16>(call, 3),
                         .lse = operand(call, 5),
                         .delta = delta,
                         .dq = operand<Bfloat16>(call, 6),
                         .dk = operand<Bfloat16>(call, 7),
                         .dv = operand<Bfloat16>(call, 8)};
  const std::int64_t rows = shape.batch * shape.heads * shape.length;
  stream.launch(FlashDelta{shape, in.dy, operand<Bfloat16>(call, 4), delta},
                {.blocks = blocks_for(rows * FlashDelta::lanes_of_row, usual_threads)});
  with_flash_width(shape.head_dim,
                   [&](auto width) { launch_flash_backward<decltype(width)::value>(in, stream); });
}

}  // namespace shardscope::cuda
