#include <cmath>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

std::int64_t pieces_of(std::int64_t elements) {
  return (elements + piece_elements - 1) / piece_elements;
}

template <class T>
double piece_sum(const T* g, std::int64_t elements) {
  Doubles low{}, high{};
  for_vectors(0, elements, [&](std::int64_t i, auto part) {
    const Floats v = load(g + i, part);
    low += widen_low(v) * widen_low(v);
    high += widen_high(v) * widen_high(v);
  });
  return sum_of(low + high);
}

/// Calls `body(slice, i, whole or part)` for every vector of every slice, split over the team.
template <class Body>
void for_slices(const KernelCall& call, int threads, const Body& body) {
  parallel(threads, [&](Member member) {
    for (const Slice& slice : call.slices) {
      const Range mine = share(slice.elements, member, piece_elements);
      for_vectors(slice.offset + mine.begin, slice.offset + mine.end,
                  [&](std::int64_t i, auto part) { body(slice, i, part); });
    }
  });
}

/// Where the norm of all gradients is not finite, a step changes nothing.
bool is_left_out(const double* clip) { return clip && !std::isfinite(clip[0]); }

/// The factor on gradients; 1 where nothing is clipped.
float gradient_factor(const double* clip) { return clip ? static_cast<float>(clip[1]) : 1.0f; }

SHARDSCOPE_INLINE Floats square_root(Floats v) {
#ifdef __AVX512F__
  return (Floats)_mm512_sqrt_ps((__m512)v);
#else
  for (int i = 0; i < lanes; ++i) v[i] = std::sqrt(v[i]);
  return v;
#endif
}

template <class T, class Part>
SHARDSCOPE_INLINE void store_parameter(T* parameter, Bfloat16* copy, std::int64_t i, Floats value,
                                       Part part) {
  store(parameter + i, value, part);
  if (copy) store(copy + i, value, part);
}

template <class T, class G>
void step_adamw(const AdamWKernel& kernel, const KernelCall& call, int threads) {
  if (is_left_out(operand<const double>(call, 0))) return;
  const float factor = gradient_factor(operand<const double>(call, 0));
  const G* g = operand<G>(call, 1);
  T* p = operand<T>(call, 2);
  T* m = operand<T>(call, 3);
  T* v = operand<T>(call, 4);
  Bfloat16* copy = kernel.has_copy ? operand<Bfloat16>(call, 5) : nullptr;
  const double rate = call.state.learning_rate * kernel.rate;
  const double step = static_cast<double>(call.state.step);
  // The scalars are made in double precision and rounded once, as torch.optim.AdamW's are.
  const float kept = static_cast<float>(1.0 - rate * kernel.weight_decay);
  const float first_weight = static_cast<float>(1.0 - kernel.beta1);
  const float beta2 = static_cast<float>(kernel.beta2);
  const float second_weight = static_cast<float>(1.0 - kernel.beta2);
  const float step_size = static_cast<float>(rate / (1.0 - std::pow(kernel.beta1, step)));
  const float root = static_cast<float>(std::sqrt(1.0 - std::pow(kernel.beta2, step)));
  const float epsilon = static_cast<float>(kernel.epsilon);
  for_slices(call, threads, [=](const Slice& slice, std::int64_t i, auto part) {
    const Floats gradient = load(g + i, part) * factor;
    const Floats parameter = load(p + i, part) * (slice.decay ? kept : 1.0f);
    const Floats old = load(m + i, part);
    const Floats first = old + first_weight * (gradient - old);
    const Floats second = load(v + i, part) * beta2 + second_weight * gradient * gradient;
    const Floats denominator = square_root(second) / root + epsilon;
    store(m + i, first, part);
    store(v + i, second, part);
    store_parameter(p, copy, i, parameter - step_size * first / denominator, part);
  });
}

template <class T, class G>
void step_sgd(const SgdKernel& kernel, const KernelCall& call, int threads) {
  if (is_left_out(operand<const double>(call, 0))) return;
  const float factor = gradient_factor(operand<const double>(call, 0));
  const G* g = operand<G>(call, 1);
  T* p = operand<T>(call, 2);
  T* buffer = operand<T>(call, 3);
  Bfloat16* copy = kernel.has_copy ? operand<Bfloat16>(call, 4) : nullptr;
  const float rate = static_cast<float>(call.state.learning_rate * kernel.rate);
  const float decay = static_cast<float>(kernel.weight_decay);
  const float momentum = static_cast<float>(kernel.momentum);
  const bool first_step = call.state.step == 1;
  const bool nesterov = kernel.nesterov;
  for_slices(call, threads, [=](const Slice& slice, std::int64_t i, auto part) {
    const Floats parameter = load(p + i, part);
    Floats gradient = load(g + i, part) * factor;
    if (slice.decay) gradient += decay * parameter;
    Floats direction = gradient;
    if (buffer) {
      const Floats average = first_step ? gradient : momentum * load(buffer + i, part) + gradient;
      store(buffer + i, average, part);
      direction = nesterov ? gradient + momentum * average : average;
    }
    store_parameter(p, copy, i, parameter - rate * direction, part);
  });
}

}  // namespace

void run(const SumOfSquaresKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.gradient_dtype, [&](auto element) {
    const auto* g = operand<decltype(element)>(call, 0);
    double* pieces = operand<double>(call, 1);
    parallel(threads, [&](Member member) {
      for (const Slice& slice : call.slices) {
        const Range mine = share(pieces_of(slice.elements), member);
        for (std::int64_t piece = mine.begin; piece < mine.end; ++piece) {
          const std::int64_t begin = piece * piece_elements;
          const std::int64_t left = slice.elements - begin;
          pieces[slice.piece + piece] =
              piece_sum(g + slice.offset + begin, left < piece_elements ? left : piece_elements);
        }
      }
    });
  });
}

void run(const ClipCoefficientKernel& kernel, const KernelCall& call, int) {
  const double* pieces = operand<const double>(call, 0);
  double* clip = operand<double>(call, 1);
  double sum = 0;
  for (const Slice& slice : call.slices)
    for (std::int64_t i = 0; i < pieces_of(slice.elements); ++i)
      sum += pieces[slice.piece_index(i)];
  const double norm = std::sqrt(sum);
  const double factor = kernel.clip / (norm + 1e-6);
  clip[0] = norm;
  // Written so that a norm that is not a number makes the factor so, too.
  clip[1] = !kernel.has_clip || factor > 1.0 ? 1.0 : factor;
}

void run(const AdamWKernel& kernel, const KernelCall& call, int threads) {
  with_elements(kernel, [&](auto element, auto gradient) {
    step_adamw<decltype(element), decltype(gradient)>(kernel, call, threads);
  });
}

void run(const SgdKernel& kernel, const KernelCall& call, int threads) {
  with_elements(kernel, [&](auto element, auto gradient) {
    step_sgd<decltype(element), decltype(gradient)>(kernel, call, threads);
  });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
