// Every kernel of this instruction set, an overload a kind; operands as
// core/schedule/kernel_structs.h lists them. Results do not depend on `threads`.
#pragma once

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/kernels/isa.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

/// On a team of `threads`.
void run(const EmbeddingForwardKernel& kernel, const KernelCall& call, int threads);
void run(const EmbeddingBackwardKernel& kernel, const KernelCall& call, int threads);
void run(const NormForwardKernel& kernel, const KernelCall& call, int threads);
void run(const NormBackwardKernel& kernel, const KernelCall& call, int threads);
void run(const LinearForwardKernel& kernel, const KernelCall& call, int threads);
void run(const LinearBackwardInputKernel& kernel, const KernelCall& call, int threads);
void run(const LinearBackwardWeightKernel& kernel, const KernelCall& call, int threads);
void run(const RopeTableKernel& kernel, const KernelCall& call, int threads);
void run(const RopeForwardKernel& kernel, const KernelCall& call, int threads);
void run(const RopeBackwardKernel& kernel, const KernelCall& call, int threads);
void run(const AttentionForwardKernel& kernel, const KernelCall& call, int threads);
void run(const AttentionBackwardKernel& kernel, const KernelCall& call, int threads);
void run(const GeluForwardKernel& kernel, const KernelCall& call, int threads);
void run(const GeluBackwardKernel& kernel, const KernelCall& call, int threads);
void run(const SwigluForwardKernel& kernel, const KernelCall& call, int threads);
void run(const SwigluBackwardKernel& kernel, const KernelCall& call, int threads);
void run(const CrossEntropyKernel& kernel, const KernelCall& call, int threads);
void run(const CountTargetsKernel& kernel, const KernelCall& call, int threads);
void run(const SumOfSquaresKernel& kernel, const KernelCall& call, int threads);
void run(const ClipCoefficientKernel& kernel, const KernelCall& call, int threads);
void run(const AdamWKernel& kernel, const KernelCall& call, int threads);
void run(const SgdKernel& kernel, const KernelCall& call, int threads);
void run(const AddKernel& kernel, const KernelCall& call, int threads);
void run(const FillZeroKernel& kernel, const KernelCall& call, int threads);

/// Scratch that the function above wants for a team of `threads`; the other kinds want none.
Bytes workspace(const NormBackwardKernel& kernel, int threads);
Bytes workspace(const LinearForwardKernel& kernel, int threads);
Bytes workspace(const LinearBackwardInputKernel& kernel, int threads);
Bytes workspace(const LinearBackwardWeightKernel& kernel, int threads);
Bytes workspace(const AttentionForwardKernel& kernel, int threads);
Bytes workspace(const AttentionBackwardKernel& kernel, int threads);
Bytes workspace(const CrossEntropyKernel& kernel, int threads);

const KernelTable& kernel_table();

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
