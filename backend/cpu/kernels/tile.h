// Small matrix products held in registers: the inner part of attention and of the plain matrix
// product.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

// Rows and vectors of the largest tile: its sums, one row of B and one broadcast fit in the
// registers.
inline constexpr int tile_rows = lanes == 16 ? 6 : 4;
inline constexpr int tile_vectors = lanes == 16 ? 4 : 2;

/// C[rows, columns] (+)= A[rows, depth] B[depth, columns]; columns are whole vectors.
/// Element (i, k) of A stands at a[i * a_row + k * a_depth].
struct TileProduct {
  const float* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_depth = 0;
  const float* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t depth = 0;
  bool accumulate = false;
};

template <int Rows, int Vectors>
void multiply_tile(const TileProduct& t) {
  Floats sums[Rows][Vectors];
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Vectors; ++j)
      sums[i][j] = t.accumulate ? load(t.c + i * t.c_stride + j * lanes) : Floats{};
  const float* a = t.a;
  const float* b = t.b;
  for (std::int64_t k = 0; k < t.depth; ++k, a += t.a_depth, b += t.b_stride) {
    Floats row[Vectors];
    for (int j = 0; j < Vectors; ++j) row[j] = load(b + j * lanes);
    for (int i = 0; i < Rows; ++i) {
      const Floats value = broadcast(a[i * t.a_row]);
      for (int j = 0; j < Vectors; ++j) sums[i][j] += value * row[j];
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Vectors; ++j) store(t.c + i * t.c_stride + j * lanes, sums[i][j]);
}

template <int Rows>
SHARDSCOPE_INLINE void multiply_rows(TileProduct t, std::int64_t vectors) {
  constexpr std::int64_t width = std::int64_t{tile_vectors} * lanes;
  for (; vectors >= tile_vectors; vectors -= tile_vectors, t.b += width, t.c += width)
    multiply_tile<Rows, tile_vectors>(t);
  if constexpr (tile_vectors == 4) {
    if (vectors == 3) multiply_tile<Rows, 3>(t);
    if (vectors == 2) multiply_tile<Rows, 2>(t);
  }
  if (vectors == 1) multiply_tile<Rows, 1>(t);
}

/// One strip of at most `tile_rows` rows and `vectors` vectors of columns.
inline void multiply_strip(const TileProduct& t, std::int64_t rows, std::int64_t vectors) {
  switch (rows) {
    case 1:
      return multiply_rows<1>(t, vectors);
    case 2:
      return multiply_rows<2>(t, vectors);
    case 3:
      return multiply_rows<3>(t, vectors);
    case 4:
      return multiply_rows<4>(t, vectors);
    default:
      break;
  }
  if constexpr (tile_rows == 6) {
    if (rows == 5) return multiply_rows<5>(t, vectors);
    multiply_rows<6>(t, vectors);
  }
}

/// Any number of rows, strip by strip.
inline void multiply_block(TileProduct t, std::int64_t rows, std::int64_t vectors) {
  for (; rows > 0; rows -= tile_rows, t.a += tile_rows * t.a_row, t.c += tile_rows * t.c_stride)
    multiply_strip(t, rows < tile_rows ? rows : tile_rows, vectors);
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
