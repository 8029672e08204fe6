// Layer norm and root-mean-square norm, a block a row. Weight gradients are summed over chunks of
// rows, then over chunks, in a fixed order.
#pragma once

#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/simt.h"

namespace shardscope::cuda {

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

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    auto* slots = thread.template shared<float>();
    const std::int64_t row = thread.block();
    const T* in = x + row * width;
    float average = 0;
    if (mean) {
      float sum = 0;
      for_block(thread, width, [&](std::int64_t i) { sum += get(in[i]); });
      average = block_sum(thread, sum, slots) / static_cast<float>(width);
    }
    // Around the mean: a difference of large squares would lose its digits.
    float squares = 0;
    for_block(thread, width, [&](std::int64_t i) {
      const float centred = get(in[i]) - average;
      squares += centred * centred;
    });
    const float variance = block_sum(thread, squares, slots) / static_cast<float>(width);
    const float scale = 1.0f / sqrtf(variance + epsilon);
    for_block(thread, width, [&](std::int64_t i) {
      const float normal = (get(in[i]) - average) * scale * get(weight[i]);
      put(y[row * width + i], bias ? normal + get(bias[i]) : normal);
    });
    if (thread.index() != 0) return;
    if (mean) mean[row] = average;
    rstd[row] = scale;
  }
};

/// dx = rstd (w dy - mean(w dy) - xhat mean(w dy xhat)); without the second term for the
/// root-mean-square norm.
template <class T>
struct NormInputGradient {
  const T* dy;
  const T* x;
  const T* weight;
  const float* mean;  ///< null: root-mean-square norm
  const float* rstd;
  T* dx;
  std::int64_t width;
  bool accumulate;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    auto* slots = thread.template shared<float>();
    const std::int64_t row = thread.block(), begin = row * width;
    const float average = mean ? mean[row] : 0.0f, scale = rstd[row];
    float sum = 0, product_sum = 0;
    for_block(thread, width, [&](std::int64_t i) {
      const float scaled = get(dy[begin + i]) * get(weight[i]);
      sum += scaled;
      product_sum += scaled * ((get(x[begin + i]) - average) * scale);
    });
    const float count = static_cast<float>(width);
    const float mean_gradient = mean ? block_sum(thread, sum, slots) / count : 0.0f;
    const float mean_product = block_sum(thread, product_sum, slots) / count;
    for_block(thread, width, [&](std::int64_t i) {
      const float scaled = get(dy[begin + i]) * get(weight[i]);
      const float normal = (get(x[begin + i]) - average) * scale;
      const float gradient = scale * (scaled - mean_gradient - normal * mean_product);
      put(dx[begin + i], accumulate ? get(dx[begin + i]) + gradient : gradient);
    });
  }
};

/// Rows of a chunk: enough chunks to fill a device, few enough to be summed in one go.
constexpr std::int64_t norm_chunk_rows(std::int64_t rows) {
  constexpr std::int64_t most_chunks = 256, fewest_rows = 16;
  const std::int64_t even = blocks_for(rows, most_chunks);
  return even < fewest_rows ? fewest_rows : even;
}

/// A block sums one chunk of rows for `usual_threads` columns.
template <class T>
struct NormPartialGradients {
  const T* dy;
  const T* x;
  const float* mean;
  const float* rstd;
  float* partials;  ///< [chunks][2][width]: of dweight and dbias
  std::int64_t rows, width, chunk_rows;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t column_blocks = blocks_for(width, thread.count());
    const std::int64_t chunk = thread.block() / column_blocks;
    const std::int64_t column = thread.block() % column_blocks * thread.count() + thread.index();
    if (column >= width) return;
    const std::int64_t first = chunk * chunk_rows;
    const std::int64_t end = first + chunk_rows < rows ? first + chunk_rows : rows;
    float dweight = 0, dbias = 0;
    for (std::int64_t row = first; row < end; ++row) {
      const float gradient = get(dy[row * width + column]);
      const float average = mean ? mean[row] : 0.0f;
      dweight += gradient * ((get(x[row * width + column]) - average) * rstd[row]);
      dbias += gradient;
    }
    partials[2 * chunk * width + column] = dweight;
    partials[(2 * chunk + 1) * width + column] = dbias;
  }
};

template <class G>
struct SumPartialGradients {
  const float* partials;
  G* sum;
  std::int64_t width, chunks, which;
  bool accumulate;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, width, [&](std::int64_t column) {
      float total = 0;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
        total += partials[(2 * chunk + which) * width + column];
      put(sum[column], accumulate ? get(sum[column]) + total : total);
    });
  }
};

template <class Stream>
void norm_forward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    stream.launch(NormForward<T>{.x = operand<T>(call, 0),
                                 .weight = operand<T>(call, 1),
                                 .bias = operand<T>(call, 2),
                                 .y = operand<T>(call, 3),
                                 .mean = operand(call, 4),
                                 .rstd = operand(call, 5),
                                 .width = kernel.in,
                                 .epsilon = static_cast<float>(kernel.epsilon)},
                  {.blocks = kernel.rows,
                   .threads = threads_for(kernel.in),
                   .shared_bytes = slot_bytes(usual_threads)});
  });
}

inline std::int64_t norm_chunks(const Kernel& kernel) {
  return blocks_for(kernel.rows, norm_chunk_rows(kernel.rows));
}

inline Bytes norm_backward_workspace(const Kernel& kernel) {
  return {2 * norm_chunks(kernel) * kernel.in * static_cast<std::int64_t>(sizeof(float))};
}

template <class T, class G, class Stream>
void norm_weight_gradients(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  float* partials = operand(call, 8);
  const std::int64_t chunks = norm_chunks(kernel);
  stream.launch(NormPartialGradients<T>{.dy = operand<T>(call, 0),
                                        .x = operand<T>(call, 1),
                                        .mean = operand(call, 3),
                                        .rstd = operand(call, 4),
                                        .partials = partials,
                                        .rows = kernel.rows,
                                        .width = kernel.in,
                                        .chunk_rows = norm_chunk_rows(kernel.rows)},
                {.blocks = chunks * blocks_for(kernel.in, threads_for(kernel.in)),
                 .threads = threads_for(kernel.in)});
  for (const std::int64_t which : {0, 1}) {
    G* sum = operand<G>(call, 6 + static_cast<std::size_t>(which));
    if (!sum) continue;
    stream.launch(SumPartialGradients<G>{.partials = partials,
                                         .sum = sum,
                                         .width = kernel.in,
                                         .chunks = chunks,
                                         .which = which,
                                         .accumulate = kernel.accumulate},
                  {.blocks = blocks_for(kernel.in, threads_for(kernel.in)),
                   .threads = threads_for(kernel.in)});
  }
}

template <class T, class Stream>
void norm_input_gradient(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  stream.launch(NormInputGradient<T>{.dy = operand<T>(call, 0),
                                     .x = operand<T>(call, 1),
                                     .weight = operand<T>(call, 2),
                                     .mean = operand(call, 3),
                                     .rstd = operand(call, 4),
                                     .dx = operand<T>(call, 5),
                                     .width = kernel.in,
                                     .accumulate = kernel.accumulate_input},
                {.blocks = kernel.rows,
                 .threads = threads_for(kernel.in),
                 .shared_bytes = slot_bytes(usual_threads)});
}

template <class Stream>
void norm_backward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  with_elements(kernel, [&](auto element, auto gradient) {
    using T = typename decltype(element)::Type;
    using G = typename decltype(gradient)::Type;
    if (operand<G>(call, 6) || operand<G>(call, 7))
      norm_weight_gradients<T, G>(kernel, call, stream);
    if (operand<T>(call, 5)) norm_input_gradient<T>(kernel, call, stream);
  });
}

}  // namespace shardscope::cuda
