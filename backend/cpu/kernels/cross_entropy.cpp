#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

constexpr std::int32_t ignored_target = -100;
/// Vectors summed in fp32 before they go into a sum in double precision.
constexpr std::int64_t block_vectors = 32;

template <class T>
float largest_logit(const T* logits, std::int64_t classes) {
  Floats largest = broadcast(-std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + lanes <= classes; i += lanes) largest = larger(largest, load(logits + i));
  float result = largest_of(largest);
  for (; i < classes; ++i) {
    const float logit = to_float(logits[i]);
    result = result > logit ? result : logit;
  }
  return result;
}

/// The sum of e^(logit - largest). In float32 they take the place of the logits; in bfloat16 they
/// would be rounded there.
template <class T>
double exponentials(T* logits, std::int64_t classes, float largest) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < classes; begin += block_vectors * lanes) {
    const std::int64_t block_end = begin + block_vectors * lanes;
    Floats block{};
    for_vectors(begin, block_end < classes ? block_end : classes, [&](std::int64_t i, auto part) {
      const Floats e = exp(load(logits + i, part) - largest);
      if constexpr (std::is_same_v<T, float>) store(logits + i, e, part);
      block += keep(e, part);
    });
    sum += static_cast<double>(sum_of(block));
  }
  return sum;
}

/// The exponentials times `factor`, minus `scale` at the target.
void finish_gradient(float* row, std::int64_t classes, float /*largest*/, float factor,
                     std::int32_t target, float scale) {
  for_vectors(0, classes, [&](std::int64_t i, auto part) {
    store(row + i, load(row + i, part) * factor, part);
  });
  row[target] -= scale;
}
void finish_gradient(Bfloat16* row, std::int64_t classes, float largest, float factor,
                     std::int32_t target, float scale) {
  const float at_target = exp(load(row + target, Part{1}) - largest)[0] * factor - scale;
  for_vectors(0, classes, [&](std::int64_t i, auto part) {
    store(row + i, exp(load(row + i, part) - largest) * factor, part);
  });
  row[target] = to_bfloat16(at_target);
}

/// Turns one row of logits into its gradient, times `scale`; returns the row's loss.
template <class T>
double row_loss(T* logits, std::int64_t classes, std::int32_t target, double scale) {
  const double wanted = static_cast<double>(to_float(logits[target]));
  const float largest = largest_logit(logits, classes);
  const double sum = exponentials(logits, classes, largest);
  finish_gradient(logits, classes, largest, static_cast<float>(scale / sum), target,
                  static_cast<float>(scale));
  return std::log(sum) + static_cast<double>(largest) - wanted;
}

double counted_rows(const std::int32_t* targets, std::int64_t rows) {
  std::int64_t counted = 0;
  for (std::int64_t row = 0; row < rows; ++row) counted += targets[row] != ignored_target;
  return static_cast<double>(counted);
}

template <class T>
void sum_losses(const CrossEntropyKernel& kernel, const KernelCall& call, int threads) {
  const std::int32_t* targets = operand<const std::int32_t>(call, 0);
  T* logits = operand<T>(call, 1);
  double* loss = operand<double>(call, 2);
  double* losses = operand<double>(call, 4);
  const std::int64_t classes = kernel.classes;
  // Without a counted row this is 0: the mean below is then 0 / 0, not a number, as in PyTorch.
  const double counted =
      kernel.has_count ? *operand<const double>(call, 3) : counted_rows(targets, kernel.rows);
  parallel(threads, [&](Member member) {
    const Range rows = share(kernel.rows, member);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      T* of_row = logits + row * kernel.logits_row();
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

}  // namespace

Bytes workspace(const CrossEntropyKernel& kernel, int) {
  return {kernel.rows * static_cast<std::int64_t>(sizeof(double))};
}

void run(const CrossEntropyKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype,
               [&](auto element) { sum_losses<decltype(element)>(kernel, call, threads); });
}

void run(const CountTargetsKernel& kernel, const KernelCall& call, int /*threads*/) {
  *operand<double>(call, 1) = counted_rows(operand<const std::int32_t>(call, 0), kernel.rows);
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
