// Matrix products of one warp on its tensor cores: 16 x 16 times 16 x 8 elements of bfloat16, added
// in float32, with the operands spread over the lanes' registers.
//
// A thread of these kernels has, beside what simt.h asks of it (all lanes of a warp take part):
//   load_matrices(row)             four 8 x 8 matrices from shared memory: lane l gives row l % 8
//   of
//                                  matrix l / 8, and gets in register i elements 2 (l % 4) and the
//                                  next of row l / 4 of matrix i
//   load_transposed_matrices(row)  the same of the matrices' transposes
//   multiply_add(c, a, b0, b1)     c += a b
//   copy_async(to, from, present)  16 bytes into shared memory, zeros unless present
//   commit_copies()                closes the group of copies begun since the last time
//   wait_for_copies<n>()           until all but the last n groups have come, for this thread
//   pack(low, high)                two numbers as bfloat16 in one register
//   put_pair(to, low, high)        two numbers as neighbours in memory
//   exp2(x)
// Source: PTX ISA 9.0, ldmatrix, mma.m16n8k16, cp.async.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/simt.h"
#include "core/base/bfloat16.h"

namespace shardscope::cuda {

#ifdef __CUDACC__
#define SHARDSCOPE_UNROLL _Pragma("unroll")
#else
#define SHARDSCOPE_UNROLL
#endif

/// What load_matrices gives; also 16 x 16 elements as the left factor of a product: register 0
/// holds of row l / 4 the columns 2 (l % 4) and the next, register 1 those of row l / 4 + 8,
/// registers 2 and 3 the same 8 columns on.
struct Matrices {
  std::uint32_t r[4];
};

/// 16 x 8 numbers: r[0], r[1] of row l / 4, columns 2 (l % 4) and the next; r[2], r[3] of row
/// l / 4 + 8.
struct Accumulator {
  float r[4];
};

/// Elements of a 16-byte chunk, which is what copies move and a row of a matrix is.
inline constexpr int chunk_elements = 8;

struct alignas(16) [[gnu::may_alias]] Chunk {
  std::uint32_t words[4];

  SHARDSCOPE_DEVICE float element(int i) const {
    const std::uint32_t word = words[i / 2];
    return to_float(Bfloat16{static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16)});
  }
};
/// The chunk that starts there, on 16 bytes.
SHARDSCOPE_DEVICE const Chunk& chunk_at(const Bfloat16* from) {
  return *reinterpret_cast<const Chunk*>(from);
}
SHARDSCOPE_DEVICE Chunk& chunk_at(Bfloat16* to) { return *reinterpret_cast<Chunk*>(to); }

/// Rows of `dim` elements in shared memory. They lie an odd number of chunks apart, so that the
/// same chunk of 8 rows lies in different banks.
template <int dim>
struct SharedRows {
  static constexpr int stride = (dim / chunk_elements | 1) * chunk_elements;
  Bfloat16* data;

  static constexpr std::int64_t bytes(int rows) {
    return std::int64_t{rows} * stride * static_cast<std::int64_t>(sizeof(Bfloat16));
  }
  SHARDSCOPE_DEVICE Bfloat16* at(int row, int column) const { return data + row * stride + column; }
  SHARDSCOPE_DEVICE SharedRows from(int row) const { return {at(row, 0)}; }
};

template <class Thread>
SHARDSCOPE_DEVICE int lane_of(const Thread& thread) {
  return thread.index() % warp_size;
}

/// The 16 x 16 elements of `rows` from (row, column) on, as a left factor.
template <class Thread, int dim>
SHARDSCOPE_DEVICE Matrices load_left(Thread& thread, SharedRows<dim> rows, int row, int column) {
  const int lane = lane_of(thread);
  return thread.load_matrices(rows.at(row + lane % 16, column + lane / 16 * 8));
}

/// Two right factors that are transposes of rows: row .. row + 7 in registers 0, 1 and the next 8
/// in registers 2, 3; 16 columns from `column` on.
template <class Thread, int dim>
SHARDSCOPE_DEVICE Matrices load_right_transposed(Thread& thread, SharedRows<dim> rows, int row,
                                                 int column) {
  const int lane = lane_of(thread);
  return thread.load_matrices(rows.at(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8));
}

/// Two right factors: rows row .. row + 15, columns column .. column + 7 in registers 0, 1 and the
/// next 8 in registers 2, 3.
template <class Thread, int dim>
SHARDSCOPE_DEVICE Matrices load_right(Thread& thread, SharedRows<dim> rows, int row, int column) {
  const int lane = lane_of(thread);
  return thread.load_transposed_matrices(rows.at(row + lane % 16, column + lane / 16 * 8));
}

/// Where a number of a lane stands: in the warp's tile, and among the rows and columns of which the
/// lane holds numbers.
struct Place {
  int row, column;
  int lane_row, lane_column;
};

/// `row_tiles` times 16 rows of `column_tiles` times 8 numbers.
template <int row_tiles, int column_tiles>
struct Accumulators {
  Accumulator tile[row_tiles][column_tiles];

  SHARDSCOPE_DEVICE void clear() {
    SHARDSCOPE_UNROLL
    for (int i = 0; i < row_tiles; ++i) SHARDSCOPE_UNROLL
    for (int j = 0; j < column_tiles; ++j) tile[i][j] = {};
  }

  static constexpr int rows_of_lane = 2 * row_tiles;
  static constexpr int columns_of_lane = 2 * column_tiles;

  /// Calls `body(number, place)` for each number that this lane holds.
  template <class Thread, class Body>
  SHARDSCOPE_DEVICE void for_each(const Thread& thread, const Body& body) {
    for_each_with(thread, *this, [&](float& number, float, Place at) { body(number, at); });
  }

  /// The same with the number of `other` in the same place: `body(number, other's, place)`.
  template <class Thread, class Body>
  SHARDSCOPE_DEVICE void for_each_with(const Thread& thread, const Accumulators& other,
                                       const Body& body) {
    const int row = lane_of(thread) / 4, column = lane_of(thread) % 4 * 2;
    SHARDSCOPE_UNROLL
    for (int i = 0; i < row_tiles; ++i) SHARDSCOPE_UNROLL
    for (int j = 0; j < column_tiles; ++j) SHARDSCOPE_UNROLL
    for (int r = 0; r < 4; ++r)
      body(tile[i][j].r[r], other.tile[i][j].r[r],
           Place{.row = 16 * i + 8 * (r / 2) + row,
                 .column = 8 * j + column + r % 2,
                 .lane_row = 2 * i + r / 2,
                 .lane_column = 2 * j + r % 2});
  }

  /// Multiplies the i-th row of the lane by `factors[i]`, rounds it and writes it to the warp's
  /// rows of `to`, which start at `first_row`.
  template <class Thread, int dim>
  SHARDSCOPE_DEVICE void round_into(Thread& thread, SharedRows<dim> to, int first_row,
                                    const float (&factors)[rows_of_lane]) const {
    static_assert(column_tiles * 8 == dim);
    const int lane = lane_of(thread);
    SHARDSCOPE_UNROLL
    for (int i = 0; i < row_tiles; ++i) SHARDSCOPE_UNROLL
    for (int j = 0; j < column_tiles; ++j) SHARDSCOPE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float factor = factors[2 * i + half];
      thread.put_pair(to.at(first_row + 16 * i + 8 * half + lane / 4, 8 * j + lane % 4 * 2),
                      tile[i][j].r[2 * half] * factor, tile[i][j].r[2 * half + 1] * factor);
    }
  }

  /// Columns 16 k .. 16 k + 15 of the i-th 16 rows, rounded, as a left factor.
  template <class Thread>
  SHARDSCOPE_DEVICE Matrices as_left(const Thread& thread, int i, int k) const {
    const Accumulator &low = tile[i][2 * k], &high = tile[i][2 * k + 1];
    return {{thread.pack(low.r[0], low.r[1]), thread.pack(low.r[2], low.r[3]),
             thread.pack(high.r[0], high.r[1]), thread.pack(high.r[2], high.r[3])}};
  }
};

/// The left factors of a warp: `row_tiles` times 16 rows of `dim` elements, kept in registers.
template <int row_tiles, int dim>
struct LeftRows {
  Matrices at[row_tiles][dim / 16];

  template <class Thread>
  SHARDSCOPE_DEVICE void load(Thread& thread, SharedRows<dim> rows, int first_row) {
    SHARDSCOPE_UNROLL
    for (int i = 0; i < row_tiles; ++i) SHARDSCOPE_UNROLL
    for (int k = 0; k < dim / 16; ++k)
      at[i][k] = load_left(thread, rows, first_row + 16 * i, 16 * k);
  }
  template <class Thread>
  SHARDSCOPE_DEVICE Matrices get(Thread&, int i, int k) const {
    return at[i][k];
  }
};

/// The same, read from shared memory whenever they are wanted.
template <int row_tiles, int dim>
struct LeftRowsInPlace {
  SharedRows<dim> rows;
  int first_row;

  template <class Thread>
  SHARDSCOPE_DEVICE void load(Thread&, SharedRows<dim> from, int first) {
    rows = from;
    first_row = first;
  }
  template <class Thread>
  SHARDSCOPE_DEVICE Matrices get(Thread& thread, int i, int k) const {
    return load_left(thread, rows, first_row + 16 * i, 16 * k);
  }
};

/// c = left rows^T
template <class Thread, class Left, int dim, int row_tiles, int column_tiles>
SHARDSCOPE_DEVICE void multiply_transposed(Thread& thread, const Left& left, SharedRows<dim> rows,
                                           Accumulators<row_tiles, column_tiles>& c) {
  c.clear();
  SHARDSCOPE_UNROLL
  for (int k = 0; k < dim / 16; ++k) {
    Matrices a[row_tiles];
    SHARDSCOPE_UNROLL
    for (int i = 0; i < row_tiles; ++i) a[i] = left.get(thread, i, k);
    SHARDSCOPE_UNROLL
    for (int j = 0; j < column_tiles / 2; ++j) {
      const Matrices b = load_right_transposed(thread, rows, 16 * j, 16 * k);
      SHARDSCOPE_UNROLL
      for (int i = 0; i < row_tiles; ++i) {
        thread.multiply_add(c.tile[i][2 * j], a[i], b.r[0], b.r[1]);
        thread.multiply_add(c.tile[i][2 * j + 1], a[i], b.r[2], b.r[3]);
      }
    }
  }
}

/// c += p rows, with p rounded
template <class Thread, int dim, int row_tiles, int inner_tiles>
SHARDSCOPE_DEVICE void add_product(Thread& thread, const Accumulators<row_tiles, inner_tiles>& p,
                                   SharedRows<dim> rows, Accumulators<row_tiles, dim / 8>& c) {
  SHARDSCOPE_UNROLL
  for (int k = 0; k < inner_tiles / 2; ++k) {
    Matrices a[row_tiles];
    SHARDSCOPE_UNROLL
    for (int i = 0; i < row_tiles; ++i) a[i] = p.as_left(thread, i, k);
    SHARDSCOPE_UNROLL
    for (int j = 0; j < dim / 16; ++j) {
      const Matrices b = load_right(thread, rows, 16 * k, 16 * j);
      SHARDSCOPE_UNROLL
      for (int i = 0; i < row_tiles; ++i) {
        thread.multiply_add(c.tile[i][2 * j], a[i], b.r[0], b.r[1]);
        thread.multiply_add(c.tile[i][2 * j + 1], a[i], b.r[2], b.r[3]);
      }
    }
  }
}

}  // namespace shardscope::cuda
