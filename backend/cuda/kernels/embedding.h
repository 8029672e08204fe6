// Token and position embeddings. The backward sorts rows by token, so that each row of the table is
// summed by one block in the order of the rows: no atomics on floating-point numbers, the same bits
// in every run.
#pragma once

#include <algorithm>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"
#include "backend/cuda/kernels/vectors.h"

namespace shardscope::cuda {

template <class T>
struct EmbeddingForward {
  const std::int32_t* tokens;
  const T* wte;
  const T* wpe;  ///< null: none
  T* x;
  std::int64_t rows, width, length;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    aligned ? look_up<vector_elements>(thread) : look_up<1>(thread);
  }

  /// `n` columns at a time.
  template <int n, class Thread>
  SHARDSCOPE_DEVICE void look_up(Thread& thread) const {
    const std::int64_t of_row = width / n;
    for_grid(thread, rows * of_row, [&](std::int64_t i) {
      const std::int64_t row = i / of_row, column = i % of_row * n;
      float token[n], position[n] = {};
      load(wte + tokens[row] * width + column, token);
      if (wpe) load(wpe + row % length * width + column, position);
      for (int k = 0; k < n; ++k) token[k] += position[k];
      store(x + row * width + column, token);
    });
  }
};

struct CountTokens {
  const std::int32_t* tokens;
  std::int32_t* counts;  ///< [V], zeros
  std::int64_t rows;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, rows, [&](std::int64_t row) { thread.add(counts + tokens[row], 1); });
  }
};

/// Exclusive sums of counts in one block: where each token's rows begin.
struct BeginsOfTokens {
  static constexpr int most_threads = 1024;
  const std::int32_t* counts;
  std::int32_t* begins;  ///< [V]
  std::int64_t tokens;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    auto* sums = thread.template shared<std::int32_t>();
    const std::int64_t share = blocks_for(tokens, thread.count());
    const std::int64_t first = thread.index() * share;
    const std::int64_t end = first + share < tokens ? first + share : tokens;
    std::int32_t sum = 0;
    for (std::int64_t i = first; i < end; ++i) sum += counts[i];
    sums[thread.index()] = sum;
    thread.sync();
    std::int32_t begin = 0;
    for (int other = 0; other < thread.index(); ++other) begin += sums[other];
    for (std::int64_t i = first; i < end; ++i) {
      begins[i] = begin;
      begin += counts[i];
    }
  }
};

/// Rows of a token into its part of `order`, in any order; counts go back to 0.
struct PlaceRows {
  const std::int32_t* tokens;
  const std::int32_t* begins;
  std::int32_t* counts;
  std::int32_t* order;  ///< [R]
  std::int64_t rows;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, rows, [&](std::int64_t row) {
      const std::int32_t token = tokens[row];
      order[begins[token] + thread.add(counts + token, -1) - 1] = static_cast<std::int32_t>(row);
    });
  }
};

/// Each token's rows in ascending order. Costs the square of how often a token stands in the batch.
struct SortRows {
  const std::int32_t* tokens;
  const std::int32_t* begins;
  const std::int32_t* order;
  std::int32_t* sorted;  ///< [R]
  std::int64_t rows, vocabulary;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, rows, [&](std::int64_t i) {
      const std::int32_t row = order[i];
      const std::int32_t token = tokens[row];
      const std::int64_t begin = begins[token];
      const std::int64_t end = token + 1 < vocabulary ? begins[token + 1] : rows;
      std::int64_t rank = begin;
      for (std::int64_t j = begin; j < end; ++j) rank += order[j] < row;
      sorted[rank] = row;
    });
  }
};

/// A block for each sorted row; the first of a token adds up all of that token's. Groups of threads
/// take every so many-th row, then their sums are added: a token that stands in thousands of rows
/// is not one long chain of reads.
template <class T, class G>
struct SumTokenRows {
  const std::int32_t* tokens;
  const std::int32_t* begins;
  const std::int32_t* sorted;
  const T* dx;
  G* dwte;
  std::int64_t rows, width, vocabulary;
  int groups;
  bool accumulate, aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t first = thread.block();
    const std::int32_t token = tokens[sorted[first]];
    if (begins[token] != first) return;
    const std::int64_t end = token + 1 < vocabulary ? begins[token + 1] : rows;
    G* sum = dwte + token * width;
    aligned ? add_up<vector_elements>(thread, first, end, sum) : add_up<1>(thread, first, end, sum);
  }

  /// `n` columns at a time.
  template <int n, class Thread>
  SHARDSCOPE_DEVICE void add_up(Thread& thread, std::int64_t first, std::int64_t end,
                                G* sum) const {
    auto* sums = thread.template shared<float>();  // [groups][width], of more than one
    const int of_group = thread.count() / groups, group = thread.index() / of_group;
    const int lane = thread.index() % of_group;
    for (std::int64_t i = lane * n; i < width && group < groups; i += of_group * n) {
      float total[n] = {}, more[n];
      for (std::int64_t row = first + group; row < end; row += groups) {
        load(dx + sorted[row] * width + i, more);
        for (int k = 0; k < n; ++k) total[k] += more[k];
      }
      groups == 1 ? finish(total, sum + i) : store(sums + group * width + i, total);
    }
    if (groups == 1) return;
    thread.sync();
    if (group != 0) return;
    for (std::int64_t i = lane * n; i < width; i += of_group * n) {
      float total[n] = {}, more[n];
      for (int other = 0; other < groups && first + other < end; ++other) {
        load(sums + other * width + i, more);
        for (int k = 0; k < n; ++k) total[k] += more[k];
      }
      finish(total, sum + i);
    }
  }

  template <int n>
  SHARDSCOPE_DEVICE void finish(float (&total)[n], G* sum) const {
    float old[n] = {};
    if (accumulate) load(sum, old);
    for (int k = 0; k < n; ++k) total[k] += old[k];
    store(sum, total);
  }
};

template <class T, class G>
struct SumPositions {
  const T* dx;
  G* dwpe;
  std::int64_t rows, width, length, positions;
  bool accumulate;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, positions * width, [&](std::int64_t i) {
      const std::int64_t position = i / width, column = i % width;
      float total = accumulate ? get(dwpe[i]) : 0.0f;
      for (std::int64_t row = position; position < length && row < rows; row += length)
        total += get(dx[row * width + column]);
      put(dwpe[i], total);
    });
  }
};

template <class Stream>
void run(const EmbeddingForwardKernel& kernel, const KernelCall& call, Stream& stream) {
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    EmbeddingForward<T> body{.tokens = operand<const std::int32_t>(call, 0),
                             .wte = operand<T>(call, 1),
                             .wpe = operand<T>(call, 2),
                             .x = operand<T>(call, 3),
                             .rows = kernel.rows,
                             .width = kernel.width,
                             .length = kernel.length,
                             .aligned = false};
    body.aligned = kernel.width % vector_elements == 0 && are_aligned(body.wte, body.wpe, body.x);
    const std::int64_t elements = kernel.rows * kernel.width;
    stream.launch(body, body.aligned ? vector_shape(elements) : elementwise_shape(elements));
  });
}

/// counts[V], begins[V], order[R], sorted[R]
inline Bytes workspace(const EmbeddingBackwardKernel& kernel) {
  return {(2 * kernel.vocabulary + 2 * kernel.rows) *
          static_cast<std::int64_t>(sizeof(std::int32_t))};
}

/// Rows in the order of their tokens, in the workspace.
template <class Stream>
std::int32_t* sort_rows(const EmbeddingBackwardKernel& kernel, const KernelCall& call,
                        Stream& stream) {
  const auto* tokens = operand<const std::int32_t>(call, 0);
  auto* counts = operand<std::int32_t>(call, 4);
  std::int32_t* begins = counts + kernel.vocabulary;
  std::int32_t* order = begins + kernel.vocabulary;
  std::int32_t* sorted = order + kernel.rows;
  constexpr int scan_threads = BeginsOfTokens::most_threads;
  const LaunchShape by_row = elementwise_shape(kernel.rows);
  stream.launch(fill_zero_of(counts, kernel.vocabulary), vector_shape(kernel.vocabulary));
  stream.launch(CountTokens{tokens, counts, kernel.rows}, by_row);
  stream.launch(BeginsOfTokens{counts, begins, kernel.vocabulary},
                {.threads = scan_threads, .shared_bytes = scan_threads * sizeof(std::int32_t)});
  stream.launch(PlaceRows{tokens, begins, counts, order, kernel.rows}, by_row);
  stream.launch(SortRows{tokens, begins, order, sorted, kernel.rows, kernel.vocabulary}, by_row);
  return sorted;
}

template <class T, class G, class Stream>
void token_gradient(const EmbeddingBackwardKernel& kernel, const KernelCall& call, Stream& stream) {
  const std::int32_t* sorted = sort_rows(kernel, call, stream);
  if (!kernel.accumulate) {
    const std::int64_t elements = kernel.vocabulary * kernel.width;
    stream.launch(fill_zero_of(operand<G>(call, 2), elements), vector_shape(elements));
  }
  SumTokenRows<T, G> body{.tokens = operand<const std::int32_t>(call, 0),
                          .begins = operand<const std::int32_t>(call, 4) + kernel.vocabulary,
                          .sorted = sorted,
                          .dx = operand<T>(call, 1),
                          .dwte = operand<G>(call, 2),
                          .rows = kernel.rows,
                          .width = kernel.width,
                          .vocabulary = kernel.vocabulary,
                          .groups = 1,
                          .accumulate = kernel.accumulate,
                          .aligned = false};
  body.aligned = kernel.width % vector_elements == 0 && are_aligned(body.dx, body.dwte);
  const std::int64_t of_row = body.aligned ? kernel.width / vector_elements : kernel.width;
  constexpr std::int64_t most_groups = 8;
  body.groups = static_cast<int>(std::clamp(usual_threads / of_row, std::int64_t{1}, most_groups));
  const std::int64_t sums = body.groups > 1 ? body.groups * kernel.width : 0;
  stream.launch(body, {.blocks = kernel.rows,
                       .threads = threads_for(body.groups * of_row),
                       .shared_bytes = sums * static_cast<std::int64_t>(sizeof(float))});
}

template <class T, class G, class Stream>
void position_gradient(const EmbeddingBackwardKernel& kernel, const KernelCall& call,
                       Stream& stream) {
  stream.launch(SumPositions<T, G>{.dx = operand<T>(call, 1),
                                   .dwpe = operand<G>(call, 3),
                                   .rows = kernel.rows,
                                   .width = kernel.width,
                                   .length = kernel.length,
                                   .positions = kernel.positions,
                                   .accumulate = kernel.accumulate},
                elementwise_shape(kernel.positions * kernel.width));
}

template <class Stream>
void run(const EmbeddingBackwardKernel& kernel, const KernelCall& call, Stream& stream) {
  with_elements(kernel, [&](auto element, auto gradient) {
    using T = typename decltype(element)::Type;
    using G = typename decltype(gradient)::Type;
    if (operand<G>(call, 2)) token_gradient<T, G>(kernel, call, stream);
    if (operand<G>(call, 3)) position_gradient<T, G>(kernel, call, stream);
  });
}

}  // namespace shardscope::cuda
