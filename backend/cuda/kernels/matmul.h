// Plain matrix products: right for every shape, deterministic, slow. What cuBLASLt is checked
// against, and what runs where it is not there.
#pragma once

#include "backend/cuda/kernels/column_sums.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"

namespace shardscope::cuda {

/// A matrix in memory: element (i, j) lies at data[i * row + j * column].
template <class T>
struct StridedMatrix {
  const T* data;
  std::int64_t row, column;

  SHARDSCOPE_DEVICE float at(std::int64_t i, std::int64_t j) const {
    return get(data[i * row + j * column]);
  }
};

inline constexpr int matmul_tile = 16;

/// c[m,n] = a b (+ bias) (+ residual) (+ c). A block makes one tile.
template <class T, class G>
struct Matmul {
  StridedMatrix<T> a, b;
  const T* bias;       ///< [n], null: none
  const T* residual;   ///< as c, null: none
  G* c;                ///< [m,n], row-major
  std::int64_t c_row;  ///< elements between rows of c, and of the residual
  std::int64_t m, n, k;
  bool accumulate;
  G* gelu_of;         ///< as c: gelu_tanh of it; null: not wanted
  const T* slope_at;  ///< as c, which is times the derivative of gelu_tanh here; null: it is not

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    constexpr int tile = matmul_tile;
    auto* left = thread.template shared<float>();
    float* right = left + tile * tile;
    const std::int64_t tiles_across = blocks_for(n, tile);
    const int i = thread.index() / tile, j = thread.index() % tile;
    const std::int64_t row = thread.block() / tiles_across * tile + i;
    const std::int64_t column = thread.block() % tiles_across * tile + j;
    float sum = 0;
    for (std::int64_t begin = 0; begin < k; begin += tile) {
      left[i * tile + j] = row < m && begin + j < k ? a.at(row, begin + j) : 0.0f;
      right[i * tile + j] = column < n && begin + i < k ? b.at(begin + i, column) : 0.0f;
      thread.sync();
      const std::int64_t some = k - begin < tile ? k - begin : tile;
      for (std::int64_t l = 0; l < some; ++l) sum += left[i * tile + l] * right[l * tile + j];
      thread.sync();
    }
    if (row >= m || column >= n) return;
    const std::int64_t at = row * c_row + column;
    if (bias) sum += get(bias[column]);
    if (residual) sum += get(residual[at]);
    if (accumulate) sum += get(c[at]);
    if (slope_at) sum *= gelu_slope(get(slope_at[at]));
    put(c[at], sum);
    if (gelu_of) put(gelu_of[at], gelu(sum));
  }
};

constexpr std::int64_t bias_chunk_rows = 128;

/// Sums of chunks of rows, by column.
template <class T>
struct ColumnPartials {
  const T* dy;
  float* partials;  ///< [chunks][columns]
  std::int64_t rows, columns, row_stride;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t chunks = blocks_for(rows, bias_chunk_rows);
    for_grid(thread, chunks * columns, [&](std::int64_t i) {
      const std::int64_t column = i % columns, first = i / columns * bias_chunk_rows;
      const std::int64_t end = first + bias_chunk_rows < rows ? first + bias_chunk_rows : rows;
      float sum = 0;
      for (std::int64_t row = first; row < end; ++row) sum += get(dy[row * row_stride + column]);
      partials[i] = sum;
    });
  }
};

template <class T, class G, class Stream>
void launch_matmul(const Matmul<T, G>& body, Stream& stream) {
  constexpr int tile = matmul_tile;
  stream.launch(body, {.blocks = blocks_for(body.m, tile) * blocks_for(body.n, tile),
                       .threads = tile * tile,
                       .shared_bytes = 2 * tile * tile * sizeof(float)});
}

/// The weight as [in, out], however it lies.
template <class T, LinearKernel K>
StridedMatrix<T> weight_of(const K& kernel, const T* weight) {
  return kernel.layout == WeightLayout::in_out ? StridedMatrix<T>{weight, kernel.out, 1}
                                               : StridedMatrix<T>{weight, 1, kernel.in};
}

template <class T>
StridedMatrix<T> transposed(const StridedMatrix<T>& matrix) {
  return {matrix.data, matrix.column, matrix.row};
}

template <class Stream>
void run(const LinearForwardKernel& kernel, const KernelCall& call, Stream& stream) {
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    launch_matmul(Matmul<T, T>{.a = {operand<T>(call, 0), kernel.in, 1},
                               .b = weight_of<T>(kernel, operand<T>(call, 1)),
                               .bias = operand<T>(call, 2),
                               .residual = operand<T>(call, 3),
                               .c = operand<T>(call, kernel.has_gelu ? 5 : 4),
                               .c_row = kernel.out_row(),
                               .m = kernel.rows,
                               .n = kernel.out,
                               .k = kernel.in,
                               .accumulate = false,
                               .gelu_of = kernel.has_gelu ? operand<T>(call, 4) : nullptr,
                               .slope_at = nullptr},
                  stream);
  });
}

template <class Stream>
void run(const LinearBackwardInputKernel& kernel, const KernelCall& call, Stream& stream) {
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    launch_matmul(Matmul<T, T>{.a = {operand<T>(call, 0), kernel.out_row(), 1},
                               .b = transposed(weight_of<T>(kernel, operand<T>(call, 1))),
                               .bias = nullptr,
                               .residual = nullptr,
                               .c = operand<T>(call, 2),
                               .c_row = kernel.in,
                               .m = kernel.rows,
                               .n = kernel.in,
                               .k = kernel.out,
                               .accumulate = kernel.accumulate_input,
                               .gelu_of = nullptr,
                               .slope_at = kernel.has_gelu ? operand<T>(call, 3) : nullptr},
                  stream);
  });
}

inline Bytes workspace(const LinearBackwardWeightKernel& kernel) {
  return {blocks_for(kernel.rows, bias_chunk_rows) * kernel.out *
          static_cast<std::int64_t>(sizeof(float))};
}

template <class T, class G, class Stream>
void bias_gradient(const LinearBackwardWeightKernel& kernel, const KernelCall& call,
                   Stream& stream) {
  const std::int64_t chunks = blocks_for(kernel.rows, bias_chunk_rows);
  float* partials = operand(call, 4);
  stream.launch(
      ColumnPartials<T>{operand<T>(call, 1), partials, kernel.rows, kernel.out, kernel.out_row()},
      elementwise_shape(chunks * kernel.out));
  sum_partials(SumPartials<G>{.partials = partials,
                              .sum = operand<G>(call, 3),
                              .count = chunks,
                              .row = kernel.out,
                              .columns = kernel.out,
                              .accumulate = kernel.accumulate},
               stream);
}

template <class T, class G, class Stream>
void weight_gradient(const LinearBackwardWeightKernel& kernel, const KernelCall& call,
                     Stream& stream) {
  const StridedMatrix<T> x{operand<T>(call, 0), kernel.in, 1};
  const StridedMatrix<T> dy{operand<T>(call, 1), kernel.out_row(), 1};
  const bool in_out = kernel.layout == WeightLayout::in_out;
  launch_matmul(Matmul<T, G>{.a = transposed(in_out ? x : dy),
                             .b = in_out ? dy : x,
                             .bias = nullptr,
                             .residual = nullptr,
                             .c = operand<G>(call, 2),
                             .c_row = in_out ? kernel.out : kernel.in,
                             .m = in_out ? kernel.in : kernel.out,
                             .n = in_out ? kernel.out : kernel.in,
                             .k = kernel.rows,
                             .accumulate = kernel.accumulate,
                             .gelu_of = nullptr,
                             .slope_at = nullptr},
                stream);
}

template <class Stream>
void run(const LinearBackwardWeightKernel& kernel, const KernelCall& call, Stream& stream) {
  with_elements(kernel, [&](auto element, auto gradient) {
    using T = typename decltype(element)::Type;
    using G = typename decltype(gradient)::Type;
    if (operand<G>(call, 3)) bias_gradient<T, G>(kernel, call, stream);
    if (operand<G>(call, 2)) weight_gradient<T, G>(kernel, call, stream);
  });
}

}  // namespace shardscope::cuda
