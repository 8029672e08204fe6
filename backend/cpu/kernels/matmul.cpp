// The plain matrix product, where oneDNN is absent or switched off: packed blocks in the manner of
// Goto and van de Geijn (2008, "Anatomy of high-performance matrix multiplication").
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
struct View {
  const float* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 0;
  const float* at(std::int64_t i, std::int64_t j) const { return data + i * row + j * column; }
};

/// C[rows, columns] (+)= A[rows, depth] B[depth, columns], C row-major without gaps.
struct Product {
  View a;
  View b;
  float* c = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool accumulate = false;
};

/// One member's scratch.
struct Scratch {
  float* a;     ///< [row_block / tile_rows][depth_block][tile_rows]
  float* b;     ///< [column_block / panel][depth_block][panel]
  float* edge;  ///< [tile_rows][panel]
};
constexpr std::int64_t scratch_floats =
    row_block * depth_block + column_block * depth_block + tile_rows * panel;

Scratch scratch_of(float* workspace, int member) {
  Scratch s{};
  s.a = workspace + member * scratch_floats;
  s.b = s.a + row_block * depth_block;
  s.edge = s.b + column_block * depth_block;
  return s;
}

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// A strip of rows with depth varying slowest; missing rows 0.
void pack_a(View a, std::int64_t rows, std::int64_t depth, float* to) {
  for (std::int64_t strip = 0; strip < rows; strip += tile_rows)
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t i = 0; i < tile_rows; ++i)
        *to++ = strip + i < rows ? *a.at(strip + i, k) : 0.0f;
}

/// Panels of columns with depth varying slowest; missing columns 0.
void pack_b(View b, std::int64_t depth, std::int64_t columns, float* to) {
  for (std::int64_t first = 0; first < columns; first += panel)
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t j = 0; j < panel; ++j)
        *to++ = first + j < columns ? *b.at(k, first + j) : 0.0f;
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

/// The packed blocks' product into C at (row, column).
void multiply_packed(const Product& p, const Scratch& s, Range rows, Range columns,
                     std::int64_t depth, bool accumulate) {
  for (std::int64_t j = columns.begin; j < columns.end; j += panel) {
    for (std::int64_t i = rows.begin; i < rows.end; i += tile_rows) {
      const std::int64_t tile_height = smaller(tile_rows, rows.end - i);
      const std::int64_t tile_width = smaller(panel, columns.end - j);
      const TileProduct tile{.a = s.a + (i - rows.begin) * depth,
                             .a_row = 1,
                             .a_depth = tile_rows,
                             .b = s.b + (j - columns.begin) * depth,
                             .b_stride = panel,
                             .c = p.c + i * p.columns + j,
                             .c_stride = p.columns,
                             .depth = depth,
                             .accumulate = accumulate};
      if (tile_width == panel)
        multiply_strip(tile, tile_height, tile_vectors);
      else
        multiply_edge(tile, tile_height, tile_width, s.edge);
    }
  }
}

void multiply_range(const Product& p, const Scratch& s, Range rows, Range columns) {
  for (std::int64_t j = columns.begin; j < columns.end; j += column_block) {
    const Range some_columns{j, smaller(j + column_block, columns.end)};
    for (std::int64_t k = 0; k < p.depth; k += depth_block) {
      const std::int64_t depth = smaller(depth_block, p.depth - k);
      pack_b({p.b.at(k, j), p.b.row, p.b.column}, depth, some_columns.end - j, s.b);
      for (std::int64_t i = rows.begin; i < rows.end; i += row_block) {
        const Range some_rows{i, smaller(i + row_block, rows.end)};
        pack_a({p.a.at(i, k), p.a.row, p.a.column}, some_rows.end - i, depth, s.a);
        multiply_packed(p, s, some_rows, some_columns, depth, p.accumulate || k > 0);
      }
    }
  }
}

void multiply(const Product& p, float* workspace, int threads) {
  parallel(threads, [&](Member member) {
    const Scratch s = scratch_of(workspace, member.index);
    if (p.columns >= p.rows)
      multiply_range(p, s, {0, p.rows}, share(p.columns, member, panel));
    else
      multiply_range(p, s, share(p.rows, member, tile_rows), {0, p.columns});
  });
}

/// The weight as the matrix [in, out], whichever way it is stored.
View weight_view(const Kernel& kernel, const float* weight) {
  return kernel.layout == WeightLayout::in_out ? View{weight, kernel.out, 1}
                                               : View{weight, 1, kernel.in};
}

/// y = bias + residual, whichever are there.
void start_output(const Kernel& kernel, const float* bias, const float* residual, float* y,
                  int threads) {
  parallel(threads, [&](Member member) {
    const Range rows = share(kernel.rows, member);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* to = y + row * kernel.out;
      const float* added = residual ? residual + row * kernel.out : nullptr;
      for_vectors(0, kernel.out, [&](std::int64_t i, auto part) {
        Floats value = bias ? load(bias + i, part) : Floats{};
        if (added) value += load(added + i, part);
        store(to + i, value, part);
      });
    }
  });
}

}  // namespace

void column_sums(const Kernel& kernel, const float* dy, float* sums, int threads) {
  // Rows are summed in blocks, and the blocks then, so that the rounding error grows with neither
  // count alone.
  constexpr std::int64_t rows_of_block = 32;
  parallel(threads, [&](Member member) {
    const Range columns = share(kernel.out, member, 64);
    for_vectors(columns.begin, columns.end, [&](std::int64_t i, auto part) {
      Floats sum = kernel.accumulate ? load(sums + i, part) : Floats{};
      for (std::int64_t begin = 0; begin < kernel.rows; begin += rows_of_block) {
        Floats of_block{};
        for (std::int64_t row = begin; row < smaller(begin + rows_of_block, kernel.rows); ++row)
          of_block += load(dy + row * kernel.out + i, part);
        sum += of_block;
      }
      store(sums + i, sum, part);
    });
  });
}

Bytes linear_workspace(const Kernel&, int threads) {
  return {threads * scratch_floats * static_cast<std::int64_t>(sizeof(float))};
}

void linear_forward(const Kernel& kernel, const KernelCall& call, int threads) {
  const float* x = operand(call, 0);
  const float* weight = operand(call, 1);
  const float* bias = operand(call, 2);
  const float* residual = operand(call, 3);
  float* y = operand(call, 4);
  if (bias || residual) start_output(kernel, bias, residual, y, threads);
  multiply({.a = {x, kernel.in, 1},
            .b = weight_view(kernel, weight),
            .c = y,
            .rows = kernel.rows,
            .columns = kernel.out,
            .depth = kernel.in,
            .accumulate = bias || residual},
           operand(call, 5), threads);
}

void linear_backward_input(const Kernel& kernel, const KernelCall& call, int threads) {
  const float* dy = operand(call, 0);
  const View weight = weight_view(kernel, operand(call, 1));
  multiply({.a = {dy, kernel.out, 1},
            .b = {weight.data, weight.column, weight.row},
            .c = operand(call, 2),
            .rows = kernel.rows,
            .columns = kernel.in,
            .depth = kernel.out,
            .accumulate = kernel.accumulate_input},
           operand(call, 3), threads);
}

void linear_backward_weight(const Kernel& kernel, const KernelCall& call, int threads) {
  const float* x = operand(call, 0);
  const float* dy = operand(call, 1);
  float* dweight = operand(call, 2);
  float* dbias = operand(call, 3);
  if (dbias) column_sums(kernel, dy, dbias, threads);
  if (!dweight) return;
  const View by_input{x, 1, kernel.in};
  const View by_output{dy, 1, kernel.out};
  const bool in_out = kernel.layout == WeightLayout::in_out;
  multiply({.a = in_out ? by_input : by_output,
            .b = in_out ? View{dy, kernel.out, 1} : View{x, kernel.in, 1},
            .c = dweight,
            .rows = in_out ? kernel.in : kernel.out,
            .columns = in_out ? kernel.out : kernel.in,
            .depth = kernel.rows,
            .accumulate = kernel.accumulate},
           operand(call, 4), threads);
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
