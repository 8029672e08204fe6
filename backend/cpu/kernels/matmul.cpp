// The plain matrix product, where oneDNN is absent or switched off: packed blocks in the manner of
// Goto and van de Geijn (2008, "Anatomy of high-performance matrix multiplication"). Packing widens
// to float32, so that bfloat16 runs on every processor.
#include <type_traits>

#include "backend/cpu/kernels/gelu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

constexpr std::int64_t depth_block = 256;
constexpr std::int64_t row_block = 12 * tile_rows;
constexpr std::int64_t panel = std::int64_t{tile_vectors} * lanes;
constexpr std::int64_t column_block = 8 * panel;

/// A matrix by its strides: element (i, j) stands at data[i * row + j * column].
template <class T>
struct View {
  const T* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 0;
  const T* at(std::int64_t i, std::int64_t j) const { return data + i * row + j * column; }
};

/// C[rows, columns] (+)= A[rows, depth] B[depth, columns], C row-major.
template <class T, class Result>
struct Product {
  View<T> a;
  View<T> b;
  Result* c = nullptr;
  std::int64_t c_row = 0;  ///< elements between rows of C, and of the addend
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool accumulate = false;
  /// Added before a bfloat16 result is rounded; a float32 one starts from them.
  const T* bias = nullptr;    ///< [columns]
  const T* addend = nullptr;  ///< [rows, columns]
  /// As C, without gaps: gelu_tanh of C; C is multiplied by gelu_tanh's derivative here.
  Result* gelu_of = nullptr;
  const T* slope_at = nullptr;
};

/// One member's scratch.
struct Scratch {
  float* a;     ///< [row_block / tile_rows][depth_block][tile_rows]
  float* b;     ///< [column_block / panel][depth_block][panel]
  float* edge;  ///< [tile_rows][panel]
  float* sums;  ///< [row_block][column_block], where the result is not float32
};
constexpr std::int64_t packed_floats =
    row_block * depth_block + column_block * depth_block + tile_rows * panel;

std::int64_t scratch_floats(Dtype result) {
  return packed_floats + (result == Dtype::float32 ? 0 : row_block * column_block);
}

/// Of a team, whose results are of this type.
Bytes scratch(Dtype result, int threads) {
  return {threads * scratch_floats(result) * static_cast<std::int64_t>(sizeof(float))};
}

template <class Result>
Scratch scratch_of(float* workspace, int member) {
  constexpr bool rounds = std::is_same_v<Result, Bfloat16>;
  Scratch s{};
  s.a = workspace + member * scratch_floats(rounds ? Dtype::bfloat16 : Dtype::float32);
  s.b = s.a + row_block * depth_block;
  s.edge = s.b + column_block * depth_block;
  s.sums = s.edge + tile_rows * panel;
  return s;
}

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// A strip of rows with depth varying slowest; missing rows 0.
template <class T>
void pack_a(View<T> a, std::int64_t rows, std::int64_t depth, float* to) {
  for (std::int64_t strip = 0; strip < rows; strip += tile_rows)
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t i = 0; i < tile_rows; ++i)
        *to++ = strip + i < rows ? to_float(*a.at(strip + i, k)) : 0.0f;
}

/// Panels of columns with depth varying slowest; missing columns 0.
template <class T>
void pack_b(View<T> b, std::int64_t depth, std::int64_t columns, float* to) {
  for (std::int64_t first = 0; first < columns; first += panel)
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t j = 0; j < panel; ++j)
        *to++ = first + j < columns ? to_float(*b.at(k, first + j)) : 0.0f;
}

/// A tile that reaches beyond C is made aside, then its valid part is written.
void multiply_edge(TileProduct t, std::int64_t rows, std::int64_t columns, float* edge) {
  float* c = t.c;
  const bool accumulate = t.accumulate;
  t.c = edge;
  const std::int64_t c_stride = t.c_stride;
  t.c_stride = panel;
  t.accumulate = false;
  multiply_strip(t, rows, tile_vectors);
  for (std::int64_t i = 0; i < rows; ++i)
    for_vectors(0, columns, [&](std::int64_t j, auto part) {
      Floats value = load(edge + i * panel + j, part);
      if (accumulate) value += load(c + i * c_stride + j, part);
      store(c + i * c_stride + j, value, part);
    });
}

/// A block of float32 results.
struct Block {
  float* c = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// The packed blocks' product.
void multiply_packed(const Scratch& s, const Block& to, std::int64_t depth, bool accumulate) {
  for (std::int64_t j = 0; j < to.columns; j += panel) {
    for (std::int64_t i = 0; i < to.rows; i += tile_rows) {
      const std::int64_t tile_height = smaller(tile_rows, to.rows - i);
      const std::int64_t tile_width = smaller(panel, to.columns - j);
      const TileProduct tile{.a = s.a + i * depth,
                             .a_row = 1,
                             .a_depth = tile_rows,
                             .b = s.b + j * depth,
                             .b_stride = panel,
                             .c = to.c + i * to.stride + j,
                             .c_stride = to.stride,
                             .depth = depth,
                             .accumulate = accumulate};
      if (tile_width == panel)
        multiply_strip(tile, tile_height, tile_vectors);
      else
        multiply_edge(tile, tile_height, tile_width, s.edge);
    }
  }
}

template <class T>
void multiply_range(const Product<T, float>& p, const Scratch& s, Range rows, Range columns) {
  for (std::int64_t j = columns.begin; j < columns.end; j += column_block) {
    const Range some_columns{j, smaller(j + column_block, columns.end)};
    for (std::int64_t k = 0; k < p.depth; k += depth_block) {
      const std::int64_t depth = smaller(depth_block, p.depth - k);
      pack_b<T>({p.b.at(k, j), p.b.row, p.b.column}, depth, some_columns.end - j, s.b);
      for (std::int64_t i = rows.begin; i < rows.end; i += row_block) {
        const Range some_rows{i, smaller(i + row_block, rows.end)};
        pack_a<T>({p.a.at(i, k), p.a.row, p.a.column}, some_rows.end - i, depth, s.a);
        multiply_packed(s,
                        {p.c + i * p.c_row + j, p.c_row, some_rows.end - i, some_columns.end - j},
                        depth, p.accumulate || k > 0);
      }
    }
  }
}

/// Rounds one block of sums into C at (row, column), with what is added to it.
template <class T>
void round_block(const Product<T, Bfloat16>& p, const Block& sums, std::int64_t row,
                 std::int64_t column) {
  const Bfloat16* old = p.accumulate ? p.c : nullptr;
  for (std::int64_t i = 0; i < sums.rows; ++i) {
    const std::int64_t at = (row + i) * p.c_row + column;
    for_vectors(0, sums.columns, [&](std::int64_t j, auto part) {
      Floats value = load(sums.c + i * sums.stride + j, part);
      if (p.bias) value += load(p.bias + column + j, part);
      if (p.addend) value += load(p.addend + at + j, part);
      if (old) value += load(old + at + j, part);
      if (p.slope_at) value *= gelu_slope(load(p.slope_at + at + j, part));
      if (p.gelu_of) store(p.gelu_of + at + j, gelu(value), part);
      store(p.c + at + j, value, part);
    });
  }
}

/// What a float32 product is followed by.
template <class T>
void finish_gelu(const Product<T, float>& p, int threads) {
  parallel(threads, [&](Member member) {
    const Range elements = share(p.rows * p.c_row, member, 64);
    for_vectors(elements.begin, elements.end, [&](std::int64_t i, auto part) {
      const Floats value = load(p.c + i, part);
      if (p.gelu_of) store(p.gelu_of + i, gelu(value), part);
      if (p.slope_at) store(p.c + i, value * gelu_slope(load(p.slope_at + i, part)), part);
    });
  });
}
template <class T>
void finish_gelu(const Product<T, Bfloat16>&, int /*threads*/) {}  // in round_block

/// All of the depth is summed in float32 before anything is rounded.
template <class T>
void multiply_range(const Product<T, Bfloat16>& p, const Scratch& s, Range rows, Range columns) {
  for (std::int64_t j = columns.begin; j < columns.end; j += column_block) {
    const std::int64_t some_columns = smaller(column_block, columns.end - j);
    for (std::int64_t i = rows.begin; i < rows.end; i += row_block) {
      const std::int64_t some_rows = smaller(row_block, rows.end - i);
      const Block sums{s.sums, column_block, some_rows, some_columns};
      for (std::int64_t k = 0; k < p.depth; k += depth_block) {
        const std::int64_t depth = smaller(depth_block, p.depth - k);
        pack_b<T>({p.b.at(k, j), p.b.row, p.b.column}, depth, some_columns, s.b);
        pack_a<T>({p.a.at(i, k), p.a.row, p.a.column}, some_rows, depth, s.a);
        multiply_packed(s, sums, depth, k > 0);
      }
      round_block(p, sums, i, j);
    }
  }
}

template <class T, class Result>
void multiply(const Product<T, Result>& p, float* workspace, int threads) {
  parallel(threads, [&](Member member) {
    const Scratch s = scratch_of<Result>(workspace, member.index);
    if (p.columns >= p.rows)
      multiply_range(p, s, {0, p.rows}, share(p.columns, member, panel));
    else
      multiply_range(p, s, share(p.rows, member, tile_rows), {0, p.columns});
  });
  if (p.gelu_of || p.slope_at) finish_gelu(p, threads);
}

/// The weight as the matrix [in, out], whichever way it is stored.
template <class T, LinearKernel K>
View<T> weight_view(const K& kernel, const T* weight) {
  return kernel.layout == WeightLayout::in_out ? View<T>{weight, kernel.out, 1}
                                               : View<T>{weight, 1, kernel.in};
}

/// y = bias + residual, whichever are there.
void start_output(const LinearForwardKernel& kernel, const float* bias, const float* residual,
                  float* y, int threads) {
  parallel(threads, [&](Member member) {
    const Range rows = share(kernel.rows, member);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* to = y + row * kernel.out_row();
      const float* added = residual ? residual + row * kernel.out_row() : nullptr;
      for_vectors(0, kernel.out, [&](std::int64_t i, auto part) {
        Floats value = bias ? load(bias + i, part) : Floats{};
        if (added) value += load(added + i, part);
        store(to + i, value, part);
      });
    }
  });
}

/// Sums over rows of neighbouring vectors of columns: of every row whole cache lines are read. Rows
/// are summed in blocks, and the blocks then, so that the rounding error grows with neither count
/// alone.
template <int Vectors, class T, class G, class Extent>
void sum_columns(const LinearBackwardWeightKernel& kernel, const T* dy, G* sums, Extent part) {
  constexpr std::int64_t rows_of_block = 32;
  Floats sum[Vectors];
  for (int v = 0; v < Vectors; ++v)
    sum[v] = kernel.accumulate ? load(sums + v * lanes, part) : Floats{};
  for (std::int64_t begin = 0; begin < kernel.rows; begin += rows_of_block) {
    Floats of_block[Vectors]{};
    for (std::int64_t row = begin; row < smaller(begin + rows_of_block, kernel.rows); ++row)
      for (int v = 0; v < Vectors; ++v)
        of_block[v] += load(dy + row * kernel.out_row() + v * lanes, part);
    for (int v = 0; v < Vectors; ++v) sum[v] += of_block[v];
  }
  for (int v = 0; v < Vectors; ++v) store(sums + v * lanes, sum[v], part);
}

template <class T, class G>
void column_sums(const LinearBackwardWeightKernel& kernel, const T* dy, G* sums, int threads) {
  constexpr int vectors = 8;
  parallel(threads, [&](Member member) {
    const Range columns = share(kernel.out, member, 64);
    std::int64_t i = columns.begin;
    for (; i + vectors * lanes <= columns.end; i += vectors * lanes)
      sum_columns<vectors>(kernel, dy + i, sums + i, Whole{});
    for_vectors(i, columns.end,
                [&](std::int64_t j, auto part) { sum_columns<1>(kernel, dy + j, sums + j, part); });
  });
}

float* workspace_of(const KernelCall& call) { return static_cast<float*>(call.operands.back()); }

void multiply_forward(const LinearForwardKernel& kernel, Product<float, float> p, float* workspace,
                      int threads) {
  p.accumulate = p.bias || p.addend;
  if (p.accumulate) start_output(kernel, p.bias, p.addend, p.c, threads);
  multiply(p, workspace, threads);
}
void multiply_forward(const LinearForwardKernel&, const Product<Bfloat16, Bfloat16>& p,
                      float* workspace, int threads) {
  multiply(p, workspace, threads);
}

template <class T>
void forward(const LinearForwardKernel& kernel, const KernelCall& call, int threads) {
  multiply_forward(kernel,
                   Product<T, T>{.a = {operand<T>(call, 0), kernel.in, 1},
                                 .b = weight_view<T>(kernel, operand<T>(call, 1)),
                                 .c = operand<T>(call, kernel.has_gelu ? 5 : 4),
                                 .c_row = kernel.out_row(),
                                 .rows = kernel.rows,
                                 .columns = kernel.out,
                                 .depth = kernel.in,
                                 .bias = operand<T>(call, 2),
                                 .addend = operand<T>(call, 3),
                                 .gelu_of = kernel.has_gelu ? operand<T>(call, 4) : nullptr},
                   workspace_of(call), threads);
}

template <class T>
void backward_input(const LinearBackwardInputKernel& kernel, const KernelCall& call, int threads) {
  const View<T> weight = weight_view<T>(kernel, operand<T>(call, 1));
  multiply(Product<T, T>{.a = {operand<T>(call, 0), kernel.out_row(), 1},
                         .b = {weight.data, weight.column, weight.row},
                         .c = operand<T>(call, 2),
                         .c_row = kernel.in,
                         .rows = kernel.rows,
                         .columns = kernel.in,
                         .depth = kernel.out,
                         .accumulate = kernel.accumulate_input,
                         .slope_at = kernel.has_gelu ? operand<T>(call, 3) : nullptr},
           workspace_of(call), threads);
}

template <class T, class G>
void backward_weight(const LinearBackwardWeightKernel& kernel, const KernelCall& call,
                     int threads) {
  const T* x = operand<T>(call, 0);
  const T* dy = operand<T>(call, 1);
  G* dweight = operand<G>(call, 2);
  G* dbias = operand<G>(call, 3);
  if (dbias) column_sums(kernel, dy, dbias, threads);
  if (!dweight) return;
  const View<T> by_input{x, 1, kernel.in};
  const View<T> by_output{dy, 1, kernel.out_row()};
  const bool in_out = kernel.layout == WeightLayout::in_out;
  multiply(Product<T, G>{.a = in_out ? by_input : by_output,
                         .b = in_out ? View<T>{dy, kernel.out_row(), 1} : View<T>{x, kernel.in, 1},
                         .c = dweight,
                         .c_row = in_out ? kernel.out : kernel.in,
                         .rows = in_out ? kernel.in : kernel.out,
                         .columns = in_out ? kernel.out : kernel.in,
                         .depth = kernel.rows,
                         .accumulate = kernel.accumulate},
           operand(call, 4), threads);
}

}  // namespace

Bytes workspace(const LinearForwardKernel& kernel, int threads) {
  return scratch(kernel.dtype, threads);
}
Bytes workspace(const LinearBackwardInputKernel& kernel, int threads) {
  return scratch(kernel.dtype, threads);
}
Bytes workspace(const LinearBackwardWeightKernel& kernel, int threads) {
  return scratch(kernel.gradient_dtype, threads);
}

void run(const LinearForwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype,
               [&](auto element) { forward<decltype(element)>(kernel, call, threads); });
}

void run(const LinearBackwardInputKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype,
               [&](auto element) { backward_input<decltype(element)>(kernel, call, threads); });
}

void run(const LinearBackwardWeightKernel& kernel, const KernelCall& call, int threads) {
  with_elements(kernel, [&](auto element, auto gradient) {
    backward_weight<decltype(element), decltype(gradient)>(kernel, call, threads);
  });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
