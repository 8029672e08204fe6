#include <cmath>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

/// Sum over i < n of f(i, part).
template <class F>
SHARDSCOPE_INLINE float vector_sum(std::int64_t n, const F& f) {
  Floats sum{};
  for_vectors(0, n, [&](std::int64_t i, auto part) { sum += f(i, part); });
  return sum_of(sum);
}

// Weight gradients are summed over chunks of rows, then over chunks: the order is the same for any
// number of threads.
constexpr std::int64_t most_chunks = 64;
constexpr std::int64_t fewest_rows_of_chunk = 16;

struct Chunks {
  std::int64_t rows = 0;  ///< of one chunk; the last may have fewer
  std::int64_t count = 0;
};
Chunks chunks_of(std::int64_t rows) {
  const std::int64_t even = (rows + most_chunks - 1) / most_chunks;
  const std::int64_t size = even < fewest_rows_of_chunk ? fewest_rows_of_chunk : even;
  return {size, (rows + size - 1) / size};
}

template <class T, class G>
struct Backward {
  const T* dy;
  const T* x;
  const T* weight;
  const float* mean;  ///< null: root-mean-square norm
  const float* rstd;
  T* dx;
  G* dweight;
  G* dbias;
  float* partials;  ///< [chunks][2][C]: of dweight and dbias
};

template <class T, class G>
Backward<T, G> backward_operands(const KernelCall& call) {
  return {.dy = operand<T>(call, 0),
          .x = operand<T>(call, 1),
          .weight = operand<T>(call, 2),
          .mean = operand(call, 3),
          .rstd = operand(call, 4),
          .dx = operand<T>(call, 5),
          .dweight = operand<G>(call, 6),
          .dbias = operand<G>(call, 7),
          .partials = operand(call, 8)};
}

/// The row's part of dweight and dbias, added to the chunk's sums.
template <class T, class G>
SHARDSCOPE_INLINE void add_weight_gradients(const Backward<T, G>& o, std::int64_t row,
                                            std::int64_t width, float* dweight, float* dbias) {
  const T* dy = o.dy + row * width;
  const T* x = o.x + row * width;
  const float mean = o.mean ? o.mean[row] : 0.0f;
  const float rstd = o.rstd[row];
  for_vectors(0, width, [&](std::int64_t i, auto part) {
    const Floats gradient = load(dy + i, part);
    const Floats normal = (load(x + i, part) - mean) * rstd;
    store(dweight + i, load(dweight + i, part) + gradient * normal, part);
    store(dbias + i, load(dbias + i, part) + gradient, part);
  });
}

/// dx = rstd (w dy - mean(w dy) - xhat mean(w dy xhat)); without the second term for the
/// root-mean-square norm.
template <class T, class G>
SHARDSCOPE_INLINE void input_gradient(const Backward<T, G>& o, std::int64_t row, std::int64_t width,
                                      bool accumulate) {
  const T* dy = o.dy + row * width;
  const T* x = o.x + row * width;
  T* dx = o.dx + row * width;
  const float mean = o.mean ? o.mean[row] : 0.0f;
  const float rstd = o.rstd[row];
  Floats sum{}, product_sum{};
  for_vectors(0, width, [&](std::int64_t i, auto part) {
    const Floats scaled = load(dy + i, part) * load(o.weight + i, part);
    sum += scaled;
    product_sum += scaled * ((load(x + i, part) - mean) * rstd);
  });
  const float count = static_cast<float>(width);
  const float average = o.mean ? sum_of(sum) / count : 0.0f;
  const float product_average = sum_of(product_sum) / count;
  for_vectors(0, width, [&](std::int64_t i, auto part) {
    const Floats scaled = load(dy + i, part) * load(o.weight + i, part);
    const Floats normal = (load(x + i, part) - mean) * rstd;
    Floats gradient = rstd * (scaled - average - normal * product_average);
    if (accumulate) gradient += load(dx + i, part);
    store(dx + i, gradient, part);
  });
}

/// gradient (+)= sum over chunks of partials[chunk][which].
template <class G>
void combine(const float* partials, std::int64_t which, Chunks chunks, std::int64_t width,
             bool accumulate, G* gradient, Range columns) {
  for_vectors(columns.begin, columns.end, [&](std::int64_t i, auto part) {
    Floats sum{};
    for (std::int64_t chunk = 0; chunk < chunks.count; ++chunk)
      sum += load(partials + (2 * chunk + which) * width + i, part);
    if (accumulate) sum += load(gradient + i, part);
    store(gradient + i, sum, part);
  });
}

template <class T>
void normalise(const NormForwardKernel& kernel, const KernelCall& call, int threads) {
  const T* x = operand<T>(call, 0);
  const T* weight = operand<T>(call, 1);
  const T* bias = operand<T>(call, 2);
  T* y = operand<T>(call, 3);
  float* means = operand(call, 4);
  float* rstds = operand(call, 5);
  const std::int64_t width = kernel.width;
  const bool centred = kernel.norm == NormKind::layer_norm;
  const float epsilon = static_cast<float>(kernel.epsilon);
  parallel(threads, [&](Member member) {
    const Range rows = share(kernel.rows, member);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const T* from = x + row * width;
      T* to = y + row * width;
      const float count = static_cast<float>(width);
      const float mean =
          centred
              ? vector_sum(width, [&](auto i, auto part) { return load(from + i, part); }) / count
              : 0.0f;
      const float squares = vector_sum(width, [&](auto i, auto part) {
        const Floats d = keep(load(from + i, part) - mean, part);
        return d * d;
      });
      const float rstd = 1.0f / std::sqrt(squares / count + epsilon);
      for_vectors(0, width, [&](std::int64_t i, auto part) {
        Floats value = (load(from + i, part) - mean) * rstd * load(weight + i, part);
        if (bias) value += load(bias + i, part);
        store(to + i, value, part);
      });
      if (means) means[row] = mean;
      rstds[row] = rstd;
    }
  });
}

template <class T, class G>
void differentiate(const NormBackwardKernel& kernel, const KernelCall& call, int threads) {
  const Backward<T, G> o = backward_operands<T, G>(call);
  const std::int64_t width = kernel.width;
  const Chunks chunks = chunks_of(kernel.rows);
  const bool weight_gradients = o.dweight || o.dbias;
  parallel(threads, [&](Member member) {
    const Range mine = share(chunks.count, member);
    for (std::int64_t chunk = mine.begin; chunk < mine.end; ++chunk) {
      float* dweight = o.partials + 2 * chunk * width;
      float* dbias = dweight + width;
      if (weight_gradients)
        for_vectors(0, 2 * width,
                    [&](std::int64_t i, auto part) { store(dweight + i, Floats{}, part); });
      const std::int64_t end = (chunk + 1) * chunks.rows;
      for (std::int64_t row = chunk * chunks.rows; row < end && row < kernel.rows; ++row) {
        if (weight_gradients) add_weight_gradients(o, row, width, dweight, dbias);
        if (o.dx) input_gradient(o, row, width, kernel.accumulate_input);
      }
    }
  });
  if (!weight_gradients) return;
  parallel(threads, [&](Member member) {
    const Range columns = share(width, member, 64);
    if (o.dweight) combine(o.partials, 0, chunks, width, kernel.accumulate, o.dweight, columns);
    if (o.dbias) combine(o.partials, 1, chunks, width, kernel.accumulate, o.dbias, columns);
  });
}

}  // namespace

void run(const NormForwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype,
               [&](auto element) { normalise<decltype(element)>(kernel, call, threads); });
}

Bytes workspace(const NormBackwardKernel& kernel, int) {
  const std::int64_t floats = 2 * chunks_of(kernel.rows).count * kernel.width;
  return {floats * static_cast<std::int64_t>(sizeof(float))};
}

void run(const NormBackwardKernel& kernel, const KernelCall& call, int threads) {
  with_elements(kernel, [&](auto element, auto gradient) {
    differentiate<decltype(element), decltype(gradient)>(kernel, call, threads);
  });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
