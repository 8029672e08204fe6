#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

void add_row(const float* from, float* to, Range columns) {
  for_vectors(columns.begin, columns.end, [&](std::int64_t i, auto part) {
    store(to + i, load(to + i, part) + load(from + i, part), part);
  });
}

void zero_row(float* to, Range columns) {
  for_vectors(columns.begin, columns.end,
              [&](std::int64_t i, auto part) { store(to + i, Floats{}, part); });
}

}  // namespace

void embedding_forward(const Kernel& kernel, const KernelCall& call, int threads) {
  const std::int32_t* tokens = operand<const std::int32_t>(call, 0);
  const float* wte = operand(call, 1);
  const float* wpe = operand(call, 2);
  float* x = operand(call, 3);
  const std::int64_t width = kernel.in;
  parallel(threads, [&](Member member) {
    const Range rows = share(kernel.rows, member);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float* token = wte + tokens[row] * width;
      const float* position = wpe ? wpe + row % kernel.length * width : nullptr;
      for_vectors(0, width, [&](std::int64_t i, auto part) {
        Floats value = load(token + i, part);
        if (position) value += load(position + i, part);
        store(x + row * width + i, value, part);
      });
    }
  });
}

void embedding_backward(const Kernel& kernel, const KernelCall& call, int threads) {
  const std::int32_t* tokens = operand<const std::int32_t>(call, 0);
  const float* dx = operand(call, 1);
  float* dwte = operand(call, 2);
  float* dwpe = operand(call, 3);
  const std::int64_t width = kernel.in;
  // A member owns columns, so that rows are added in their order whatever the number of threads.
  parallel(threads, [&](Member member) {
    const Range columns = share(width, member, 16);
    if (dwte && !kernel.accumulate)
      for (std::int64_t token = 0; token < kernel.out; ++token)
        zero_row(dwte + token * width, columns);
    if (dwpe && !kernel.accumulate)
      for (std::int64_t position = 0; position < kernel.positions; ++position)
        zero_row(dwpe + position * width, columns);
    for (std::int64_t row = 0; row < kernel.rows; ++row) {
      if (dwte) add_row(dx + row * width, dwte + tokens[row] * width, columns);
      if (dwpe) add_row(dx + row * width, dwpe + row % kernel.length * width, columns);
    }
  });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
