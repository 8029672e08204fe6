// Layer norm and root-mean-square norm: forward a block a row, backward a block a chunk of rows.
// Weight gradients are summed over the chunk, then over chunks, in a fixed order.
#pragma once

#include "backend/cuda/kernels/column_sums.h"
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"
#include "backend/cuda/kernels/vectors.h"

namespace shardscope::cuda {

/// Whether rows of `width` elements of these arrays can be moved in vectors.
template <class... Arrays>
bool rows_are_aligned(std::int64_t width, const Arrays*... arrays) {
  return width % vector_elements == 0 && are_aligned(arrays...);
}

template <class T>
struct NormForward {
  const T* x;
  const T* weight;
  const T* bias;  ///< null: none
  T* y;
  float* mean;  ///< null: root-mean-square norm
  float* rstd;
  std::int64_t width;
  float epsilon;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t row = thread.block();
    const T* in = x + row * width;
    const float average =
        mean ? sum_of(thread, in, [](float value) { return value; }) / static_cast<float>(width)
             : 0.0f;
    // Around the mean: a difference of large squares would lose its digits.
    const float variance =
        sum_of(thread, in, [&](float value) { return (value - average) * (value - average); }) /
        static_cast<float>(width);
    const float scale = 1.0f / sqrtf(variance + epsilon);
    for_block_vectors(thread, width, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float value[n], w[n], b[n] = {};
      load(in + i, value);
      load(weight + i, w);
      if (bias) load(bias + i, b);
      for (int k = 0; k < n; ++k) {
        const float normal = (value[k] - average) * scale * w[k];
        value[k] = bias ? normal + b[k] : normal;
      }
      store(y + row * width + i, value);
    });
    if (thread.index() != 0) return;
    if (mean) mean[row] = average;
    rstd[row] = scale;
  }

  /// Sum of `term(element)` over a row.
  template <class Thread, class Term>
  SHARDSCOPE_DEVICE float sum_of(Thread& thread, const T* in, const Term& term) const {
    float sum = 0;
    for_block_vectors(thread, width, aligned, [&](std::int64_t i, auto some) {
      float value[decltype(some)::value];
      load(in + i, value);
      for (const float one : value) sum += term(one);
    });
    return block_sum(thread, sum, thread.template shared<float>());
  }
};

/// dx = rstd (w dy - mean(w dy) - xhat mean(w dy xhat)); without the second term for the
/// root-mean-square norm. A block goes over a chunk of rows and sums what the chunk adds to the
/// gradients of weight and bias on the way, so that dy and x are read from memory once.
template <class T>
struct NormBackward {
  const T* dy;
  const T* x;
  const T* weight;
  const float* mean;  ///< null: root-mean-square norm
  const float* rstd;
  T* dx;            ///< null: not wanted
  float* partials;  ///< [chunks][2][width]: of dweight and dbias; null: not wanted
  std::int64_t rows, width, chunk_rows;
  bool accumulate, aligned;
  bool in_shared;  ///< there is room for the chunk's sums behind the slots

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t first = thread.block() * chunk_rows;
    const std::int64_t end = first + chunk_rows < rows ? first + chunk_rows : rows;
    float* sums = partials + 2 * thread.block() * width;
    float* chunk = in_shared ? thread.template shared<float>() + slot_floats : sums;
    // A thread looks after the same columns throughout.
    if (partials) {
      for_block_vectors(thread, width, aligned, [&](std::int64_t i, auto some) {
        const float zeros[decltype(some)::value] = {};
        store(chunk + i, zeros);
        store(chunk + width + i, zeros);
      });
    }
    for (std::int64_t row = first; row < end; ++row) {
      const Means means = add_row(thread, row, chunk);
      if (dx) write_input_gradient(thread, row, means);
    }
    if (!partials || !in_shared) return;
    for_block_vectors(thread, width, aligned, [&](std::int64_t i, auto some) {
      float sum[decltype(some)::value];
      load(chunk + i, sum);
      store(sums + i, sum);
      load(chunk + width + i, sum);
      store(sums + width + i, sum);
    });
  }

  static constexpr std::int64_t slot_floats = slot_bytes(usual_threads) / sizeof(float);

  struct Means {
    float gradient, product;
  };

  /// What a row gives to the chunk's sums, and its means of w dy and w dy xhat.
  template <class Thread>
  SHARDSCOPE_DEVICE Means add_row(Thread& thread, std::int64_t row, float* chunk) const {
    const float average = mean ? mean[row] : 0.0f, scale = rstd[row];
    float sum = 0, product_sum = 0;
    for_block_vectors(thread, width, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float gradient[n], normal[n], w[n];
      load(dy + row * width + i, gradient);
      load(x + row * width + i, normal);
      load(weight + i, w);
      for (int k = 0; k < n; ++k) {
        normal[k] = (normal[k] - average) * scale;
        sum += gradient[k] * w[k];
        product_sum += gradient[k] * w[k] * normal[k];
      }
      if (!partials) return;
      float dweight[n], dbias[n];
      load(chunk + i, dweight);
      load(chunk + width + i, dbias);
      for (int k = 0; k < n; ++k) {
        dweight[k] += gradient[k] * normal[k];
        dbias[k] += gradient[k];
      }
      store(chunk + i, dweight);
      store(chunk + width + i, dbias);
    });
    if (!dx) return {};
    auto* slots = thread.template shared<float>();
    const float count = static_cast<float>(width);
    return {mean ? block_sum(thread, sum, slots) / count : 0.0f,
            block_sum(thread, product_sum, slots) / count};
  }

  template <class Thread>
  SHARDSCOPE_DEVICE void write_input_gradient(Thread& thread, std::int64_t row, Means means) const {
    const float average = mean ? mean[row] : 0.0f, scale = rstd[row];
    for_block_vectors(thread, width, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float gradient[n], normal[n], w[n], old[n] = {};
      load(dy + row * width + i, gradient);
      load(x + row * width + i, normal);
      load(weight + i, w);
      if (accumulate) load(dx + row * width + i, old);
      for (int k = 0; k < n; ++k) {
        const float around = (normal[k] - average) * scale;
        old[k] += scale * (gradient[k] * w[k] - means.gradient - around * means.product);
      }
      store(dx + row * width + i, old);
    });
  }
};

/// Rows of a chunk: enough chunks to fill a device, few enough that their sums cost little.
constexpr std::int64_t norm_chunk_rows(std::int64_t rows) {
  constexpr std::int64_t most_chunks = 1024, fewest_rows = 16;
  const std::int64_t even = blocks_for(rows, most_chunks);
  return even < fewest_rows ? fewest_rows : even;
}

/// Threads of a block that goes over a row in vectors.
inline int norm_threads(std::int64_t width, bool aligned) {
  return threads_for(aligned ? width / vector_elements : width);
}

template <class Stream>
void run(const NormForwardKernel& kernel, const KernelCall& call, Stream& stream) {
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    NormForward<T> body{.x = operand<T>(call, 0),
                        .weight = operand<T>(call, 1),
                        .bias = operand<T>(call, 2),
                        .y = operand<T>(call, 3),
                        .mean = operand(call, 4),
                        .rstd = operand(call, 5),
                        .width = kernel.width,
                        .epsilon = static_cast<float>(kernel.epsilon),
                        .aligned = false};
    body.aligned = rows_are_aligned(kernel.width, body.x, body.weight, body.bias, body.y);
    stream.launch(body, {.blocks = kernel.rows,
                         .threads = norm_threads(kernel.width, body.aligned),
                         .shared_bytes = slot_bytes(usual_threads)});
  });
}

inline std::int64_t norm_chunks(const NormBackwardKernel& kernel) {
  return blocks_for(kernel.rows, norm_chunk_rows(kernel.rows));
}

inline Bytes workspace(const NormBackwardKernel& kernel) {
  return {2 * norm_chunks(kernel) * kernel.width * static_cast<std::int64_t>(sizeof(float))};
}

template <class T, class Stream>
void launch_norm_backward(const NormBackwardKernel& kernel, const KernelCall& call,
                          bool weight_gradients, Stream& stream) {
  NormBackward<T> body{.dy = operand<T>(call, 0),
                       .x = operand<T>(call, 1),
                       .weight = operand<T>(call, 2),
                       .mean = operand(call, 3),
                       .rstd = operand(call, 4),
                       .dx = operand<T>(call, 5),
                       .partials = weight_gradients ? operand(call, 8) : nullptr,
                       .rows = kernel.rows,
                       .width = kernel.width,
                       .chunk_rows = norm_chunk_rows(kernel.rows),
                       .accumulate = kernel.accumulate_input,
                       .aligned = false,
                       .in_shared = false};
  body.aligned =
      rows_are_aligned(kernel.width, body.dy, body.x, body.weight, body.dx, body.partials);
  // More would leave a multiprocessor with a block or two.
  constexpr std::int64_t most_sums = 64 << 10;
  const std::int64_t sums = 2 * kernel.width * static_cast<std::int64_t>(sizeof(float));
  body.in_shared = weight_gradients && sums <= most_sums;
  stream.launch(body, {.blocks = norm_chunks(kernel),
                       .threads = norm_threads(kernel.width, body.aligned),
                       .shared_bytes = slot_bytes(usual_threads) + (body.in_shared ? sums : 0)});
}

template <class Stream>
void run(const NormBackwardKernel& kernel, const KernelCall& call, Stream& stream) {
  with_elements(kernel, [&](auto element, auto gradient) {
    using T = typename decltype(element)::Type;
    using G = typename decltype(gradient)::Type;
    G* const gradients[] = {operand<G>(call, 6), operand<G>(call, 7)};
    launch_norm_backward<T>(kernel, call, gradients[0] || gradients[1], stream);
    for (const std::int64_t which : {0, 1}) {
      if (!gradients[which]) continue;
      sum_partials(SumPartials<G>{.partials = operand(call, 8) + which * kernel.width,
                                  .sum = gradients[which],
                                  .count = norm_chunks(kernel),
                                  .row = 2 * kernel.width,
                                  .columns = kernel.width,
                                  .accumulate = kernel.accumulate},
                   stream);
    }
  });
}

}  // namespace shardscope::cuda
