// Softmax cross-entropy in place: logits become their gradient. A block a row.
#pragma once

#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/simt.h"

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

/// One row of logits becomes its gradient, times scale / counted; its loss goes to `losses`.
template <class T>
struct RowLoss {
  const std::int32_t* targets;
  T* logits;
  const double* counted;
  double* losses;
  std::int64_t classes;
  double scale;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    const std::int64_t row = thread.block();
    const std::int32_t target = targets[row];
    T* in = logits + row * classes;
    if (target == ignored_target) {
      for_block(thread, classes, [&](std::int64_t i) { put(in[i], 0); });
      if (thread.index() == 0) losses[row] = 0;
      return;
    }
    const double wanted = static_cast<double>(get(in[target]));
    float largest = -INFINITY;
    for_block(thread, classes, [&](std::int64_t i) {
      const float logit = get(in[i]);
      largest = logit > largest || logit != logit ? logit : largest;
    });
    largest = block_largest(thread, largest, thread.template shared<float>());
    double sum = 0;
    for_block(thread, classes,
              [&](std::int64_t i) { sum += static_cast<double>(expf(get(in[i]) - largest)); });
    sum = block_sum(thread, sum, thread.template shared<double>());
    const double weight = scale / *counted;
    const float factor = static_cast<float>(weight / sum);
    for_block(thread, classes, [&](std::int64_t i) {
      const float gradient = expf(get(in[i]) - largest) * factor;
      put(in[i], i == target ? gradient - static_cast<float>(weight) : gradient);
    });
    if (thread.index() == 0) losses[row] = ::log(sum) + static_cast<double>(largest) - wanted;
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

/// losses[R], counted[1]
inline Bytes cross_entropy_workspace(const Kernel& kernel) {
  return {(kernel.rows + 1) * static_cast<std::int64_t>(sizeof(double))};
}

template <class Stream>
void cross_entropy(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  const auto* targets = operand<const std::int32_t>(call, 0);
  auto* losses = operand<double>(call, 3);
  double* counted = losses + kernel.rows;
  const LaunchShape one_block{.threads = AddLoss::most_threads,
                              .shared_bytes = slot_bytes(AddLoss::most_threads)};
  stream.launch(CountTargets{targets, counted, kernel.rows}, one_block);
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    stream.launch(RowLoss<T>{.targets = targets,
                             .logits = operand<T>(call, 1),
                             .counted = counted,
                             .losses = losses,
                             .classes = kernel.out,
                             .scale = kernel.scale},
                  {.blocks = kernel.rows,
                   .threads = threads_for(kernel.out),
                   .shared_bytes = slot_bytes(usual_threads)});
  });
  stream.launch(AddLoss{.losses = losses,
                        .counted = counted,
                        .loss = operand<double>(call, 2),
                        .rows = kernel.rows,
                        .scale = kernel.scale},
                one_block);
}

}  // namespace shardscope::cuda
