// Softmax cross-entropy in place: logits become their gradient. A block a row.
#pragma once

#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"
#include "backend/cuda/kernels/vectors.h"

namespace shardscope::cuda {

inline constexpr std::int32_t ignored_target = -100;

/// How many rows have a target, as a double.
struct CountTargets {
  static constexpr int most_threads = 1024;
  const std::int32_t* targets;
  double* counted;
  std::int64_t rows;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    double count = 0;
    for_block(thread, rows, [&](std::int64_t i) { count += targets[i] != ignored_target; });
    count = block_sum(thread, count, thread.template shared<double>());
    if (thread.index() == 0) *counted = count;
  }
};

/// The largest of some numbers and the sum of e^(number - largest).
struct Exponentials {
  float largest = -INFINITY;
  double sum = 0;

  /// The sum as it is beside a larger number.
  SHARDSCOPE_DEVICE double beside(float larger) const {
    return sum == 0 ? 0 : sum * static_cast<double>(expf(largest - larger));
  }
};

/// One row of logits becomes its gradient, times scale / counted; its loss goes to `losses`. The
/// row is read twice; few rows are worked on at once, so that the second time it still lies in the
/// cache.
template <class T>
struct RowLoss {
  static constexpr int most_threads = 1024;
  const std::int32_t* targets;
  T* logits;
  const double* counted;
  double* losses;
  std::int64_t classes, stride;
  double scale;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t row = thread.block();
    const std::int32_t target = targets[row];
    T* in = logits + row * stride;
    if (target == ignored_target) {
      for_block_vectors(thread, classes, aligned, [&](std::int64_t i, auto some) {
        const float zeros[decltype(some)::value] = {};
        store(in + i, zeros);
      });
      if (thread.index() == 0) losses[row] = 0;
      return;
    }
    const double wanted = static_cast<double>(get(in[target]));
    const Exponentials all = exponentials(thread, in);
    const double weight = scale / *counted;
    const float factor = static_cast<float>(weight / all.sum),
                at_target = static_cast<float>(weight);
    for_block_vectors(thread, classes, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float logit[n];
      load(in + i, logit);
      for (int k = 0; k < n; ++k) {
        logit[k] = expf(logit[k] - all.largest) * factor;
        if (i + k == target) logit[k] -= at_target;
      }
      store(in + i, logit);
    });
    if (thread.index() == 0)
      losses[row] = ::log(all.sum) + static_cast<double>(all.largest) - wanted;
  }

  /// Of the row, on every thread.
  template <class Thread>
  SHARDSCOPE_DEVICE Exponentials exponentials(Thread& thread, const T* in) const {
    Exponentials mine;
    for_block_vectors(thread, classes, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float logit[n];
      load(in + i, logit);
      float largest = mine.largest;
      for (int k = 0; k < n; ++k)
        // NOLINTNEXTLINE(misc-redundant-expression): written so that NaN is kept
        largest = logit[k] > largest || logit[k] != logit[k] ? logit[k] : largest;
      if (largest == -INFINITY) return;
      if (largest != mine.largest) mine = {largest, mine.beside(largest)};
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += expf(logit[k] - largest);
      mine.sum += static_cast<double>(sum);
    });
    const float largest = block_largest(thread, mine.largest, thread.template shared<float>());
    return {largest, block_sum(thread, mine.beside(largest), thread.template shared<double>())};
  }
};

/// loss += scale * mean of the rows' losses; without a counted row not a number, as in PyTorch.
struct AddLoss {
  static constexpr int most_threads = 1024;
  const double* losses;
  const double* counted;
  double* loss;
  std::int64_t rows;
  double scale;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    double sum = 0;
    for_block(thread, rows, [&](std::int64_t i) { sum += losses[i]; });
    sum = block_sum(thread, sum, thread.template shared<double>());
    if (thread.index() == 0) *loss += scale * (sum / *counted);
  }
};

/// losses[R]; counted[1] where it is not given
inline Bytes workspace(const CrossEntropyKernel& kernel) {
  return {(kernel.rows + 1) * static_cast<std::int64_t>(sizeof(double))};
}

constexpr LaunchShape one_large_block{.threads = AddLoss::most_threads,
                                      .shared_bytes = slot_bytes(AddLoss::most_threads)};

template <class Stream>
void run(const CountTargetsKernel& kernel, const KernelCall& call, Stream& stream) {
  stream.launch(
      CountTargets{operand<const std::int32_t>(call, 0), operand<double>(call, 1), kernel.rows},
      one_large_block);
}

template <class T, class Stream>
void row_losses(const CrossEntropyKernel& kernel, const KernelCall& call, const double* counted,
                double* losses, Stream& stream) {
  T* logits = operand<T>(call, 1);
  const std::int64_t stride = kernel.logits_row();
  const int threads =
      threads_for(blocks_for(kernel.classes, vector_elements), RowLoss<T>::most_threads);
  stream.launch(RowLoss<T>{.targets = operand<const std::int32_t>(call, 0),
                           .logits = logits,
                           .counted = counted,
                           .losses = losses,
                           .classes = kernel.classes,
                           .stride = stride,
                           .scale = kernel.scale,
                           .aligned = are_aligned(logits) && keeps_alignment<T>(stride)},
                {.blocks = kernel.rows, .threads = threads, .shared_bytes = slot_bytes(threads)});
}

template <class Stream>
void run(const CrossEntropyKernel& kernel, const KernelCall& call, Stream& stream) {
  auto* losses = operand<double>(call, 4);
  auto* counted = operand<double>(call, 3);
  if (!kernel.has_count) {
    counted = losses + kernel.rows;
    stream.launch(CountTargets{operand<const std::int32_t>(call, 0), counted, kernel.rows},
                  one_large_block);
  }
  with_element(kernel.dtype, [&](auto element) {
    row_losses<typename decltype(element)::Type>(kernel, call, counted, losses, stream);
  });
  stream.launch(AddLoss{.losses = losses,
                        .counted = counted,
                        .loss = operand<double>(call, 2),
                        .rows = kernel.rows,
                        .scale = kernel.scale},
                one_large_block);
}

}  // namespace shardscope::cuda
