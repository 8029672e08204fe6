// Every kernel of this instruction set; operands as core/schedule/kernel.h lists them. Results do
// not depend on `threads`.
#pragma once

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/kernels/isa.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

void embedding_forward(const Kernel& kernel, const KernelCall& call, int threads);
void embedding_backward(const Kernel& kernel, const KernelCall& call, int threads);
void norm_forward(const Kernel& kernel, const KernelCall& call, int threads);
void norm_backward(const Kernel& kernel, const KernelCall& call, int threads);
void linear_forward(const Kernel& kernel, const KernelCall& call, int threads);
void linear_backward_input(const Kernel& kernel, const KernelCall& call, int threads);
void linear_backward_weight(const Kernel& kernel, const KernelCall& call, int threads);
void rope_table(const Kernel& kernel, const KernelCall& call, int threads);
void rope_forward(const Kernel& kernel, const KernelCall& call, int threads);
void rope_backward(const Kernel& kernel, const KernelCall& call, int threads);
void attention_forward(const Kernel& kernel, const KernelCall& call, int threads);
void attention_backward(const Kernel& kernel, const KernelCall& call, int threads);
void gelu_forward(const Kernel& kernel, const KernelCall& call, int threads);
void gelu_backward(const Kernel& kernel, const KernelCall& call, int threads);
void swiglu_forward(const Kernel& kernel, const KernelCall& call, int threads);
void swiglu_backward(const Kernel& kernel, const KernelCall& call, int threads);
void cross_entropy(const Kernel& kernel, const KernelCall& call, int threads);
void count_targets(const Kernel& kernel, const KernelCall& call, int threads);
void sum_of_squares(const Kernel& kernel, const KernelCall& call, int threads);
void clip_coefficient(const Kernel& kernel, const KernelCall& call, int threads);
void adamw(const Kernel& kernel, const KernelCall& call, int threads);
void sgd(const Kernel& kernel, const KernelCall& call, int threads);
void add(const Kernel& kernel, const KernelCall& call, int threads);
void fill_zero(const Kernel& kernel, const KernelCall& call, int threads);

Bytes norm_backward_workspace(const Kernel& kernel, int threads);
Bytes linear_workspace(const Kernel& kernel, int threads);
Bytes attention_forward_workspace(const Kernel& kernel, int threads);
Bytes attention_backward_workspace(const Kernel& kernel, int threads);
Bytes cross_entropy_workspace(const Kernel& kernel, int threads);

const KernelTable& kernel_table();

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
