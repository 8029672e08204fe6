#include <cmath>
#include <limits>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

constexpr std::int32_t ignored_target = -100;
/// Vectors summed in fp32 before they go into a sum in double precision.
constexpr std::int64_t block_vectors = 32;

float largest_logit(const float* logits, std::int64_t classes) {
  Floats largest = broadcast(-std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + lanes <= classes; i += lanes) largest = larger(largest, load(logits + i));
  float result = largest_of(largest);
  for (; i < classes; ++i) result = result > logits[i] ? result : logits[i];
  return result;
}

/// Replaces logits by e^(logit - largest); returns their sum.
double exponentials(float* logits, std::int64_t classes, float largest) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < classes; begin += block_vectors * lanes) {
    const std::int64_t block_end = begin + block_vectors * lanes;
    Floats block{};
    for_vectors(begin, block_end < classes ? block_end : classes, [&](std::int64_t i, auto part) {
      const Floats e = exp(load(logits + i, part) - largest);
      store(logits + i, e, part);
      block += keep(e, part);
    });
    sum += static_cast<double>(sum_of(block));
  }
  return sum;
}

void scale_row(float* row, std::int64_t classes, float factor) {
  for_vectors(0, classes, [&](std::int64_t i, auto part) {
    store(row + i, load(row + i, part) * factor, part);
  });
}

/// Turns one row of logits into its gradient, times `scale`; returns the row's loss.
double row_loss(float* logits, std::int64_t classes, std::int32_t target, double scale) {
  const double wanted = static_cast<double>(logits[target]);
  const float largest = largest_logit(logits, classes);
  const double sum = exponentials(logits, classes, largest);
  scale_row(logits, classes, static_cast<float>(scale / sum));
  logits[target] -= static_cast<float>(scale);
  return std::log(sum) + static_cast<double>(largest) - wanted;
}

std::int64_t counted_rows(const std::int32_t* targets, std::int64_t rows) {
  std::int64_t counted = 0;
  for (std::int64_t row = 0; row < rows; ++row) counted += targets[row] != ignored_target;
  return counted;
}

}  // namespace

Bytes cross_entropy_workspace(const Kernel& kernel, int) {
  return {kernel.rows * static_cast<std::int64_t>(sizeof(double))};
}

void cross_entropy(const Kernel& kernel, const KernelCall& call, int threads) {
  const std::int32_t* targets = operand<const std::int32_t>(call, 0);
  float* logits = operand(call, 1);
  double* loss = operand<double>(call, 2);
  double* losses = operand<double>(call, 3);
  const std::int64_t classes = kernel.out;
  // Without a counted row this is 0: the mean below is then 0 / 0, not a number, as in PyTorch.
  const double counted = static_cast<double>(counted_rows(targets, kernel.rows));
  parallel(threads, [&](Member member) {
    const Range rows = share(kernel.rows, member);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* of_row = logits + row * classes;
      const bool ignored = targets[row] == ignored_target;
      if (ignored)
        for_vectors(0, classes,
                    [&](std::int64_t i, auto part) { store(of_row + i, Floats{}, part); });
      losses[row] = ignored ? 0.0 : row_loss(of_row, classes, targets[row], kernel.scale / counted);
    }
  });
  double sum = 0;
  for (std::int64_t row = 0; row < kernel.rows; ++row) sum += losses[row];
  *loss += kernel.scale * (sum / counted);
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
