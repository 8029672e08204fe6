#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

template <class T, class Sum>
void add_row(const T* from, Sum* to, Range columns) {
  for_vectors(columns.begin, columns.end, [&](std::int64_t i, auto part) {
    store(to + i, load(to + i, part) + load(from + i, part), part);
  });
}

template <class T>
void zero_row(T* to, Range columns) {
  for_vectors(columns.begin, columns.end,
              [&](std::int64_t i, auto part) { store(to + i, Floats{}, part); });
}

}  // namespace

void run(const EmbeddingForwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype, [&](auto element) {
    using T = decltype(element);
    const std::int32_t* tokens = operand<const std::int32_t>(call, 0);
    const T* wte = operand<T>(call, 1);
    const T* wpe = operand<T>(call, 2);
    T* x = operand<T>(call, 3);
    const std::int64_t width = kernel.width;
    parallel(threads, [&](Member member) {
      const Range rows = share(kernel.rows, member);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const T* token = wte + tokens[row] * width;
        const T* position = wpe ? wpe + row % kernel.length * width : nullptr;
        for_vectors(0, width, [&](std::int64_t i, auto part) {
          Floats value = load(token + i, part);
          if (position) value += load(position + i, part);
          store(x + row * width + i, value, part);
        });
      }
    });
  });
}

void run(const EmbeddingBackwardKernel& kernel, const KernelCall& call, int threads) {
  with_elements(kernel, [&](auto element, auto gradient) {
    using T = decltype(element);
    using G = decltype(gradient);
    const std::int32_t* tokens = operand<const std::int32_t>(call, 0);
    const T* dx = operand<T>(call, 1);
    G* dwte = operand<G>(call, 2);
    G* dwpe = operand<G>(call, 3);
    const std::int64_t width = kernel.width;
    // A member owns columns, so that rows are added in their order whatever the number of threads.
    parallel(threads, [&](Member member) {
      const Range columns = share(width, member, 16);
      if (dwte && !kernel.accumulate)
        for (std::int64_t token = 0; token < kernel.vocabulary; ++token)
          zero_row(dwte + token * width, columns);
      if (dwpe && !kernel.accumulate)
        for (std::int64_t position = 0; position < kernel.positions; ++position)
          zero_row(dwpe + position * width, columns);
      for (std::int64_t row = 0; row < kernel.rows; ++row) {
        if (dwte) add_row(dx + row * width, dwte + tokens[row] * width, columns);
        if (dwpe) add_row(dx + row * width, dwpe + row % kernel.length * width, columns);
      }
    });
  });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
