#include "backend/cpu/kernels/kernels.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

KernelTable make_table() {
  KernelTable table{.instruction_set = SHARDSCOPE_CPU_ISA_TEXT(SHARDSCOPE_CPU_ISA)};
  const auto set = [&](KernelKind kind, KernelFunction run, WorkspaceFunction workspace = nullptr) {
    table.entries[static_cast<std::size_t>(kind)] = {.run = run, .workspace = workspace};
  };
  set(KernelKind::embedding_forward, embedding_forward);
  set(KernelKind::embedding_backward, embedding_backward);
  set(KernelKind::norm_forward, norm_forward);
  set(KernelKind::norm_backward, norm_backward, norm_backward_workspace);
  set(KernelKind::linear_forward, linear_forward, linear_workspace);
  set(KernelKind::linear_backward_input, linear_backward_input, linear_workspace);
  set(KernelKind::linear_backward_weight, linear_backward_weight, linear_workspace);
  set(KernelKind::rope_table, rope_table);
  set(KernelKind::rope_forward, rope_forward);
  set(KernelKind::rope_backward, rope_backward);
  set(KernelKind::attention_forward, attention_forward, attention_forward_workspace);
  set(KernelKind::attention_backward, attention_backward, attention_backward_workspace);
  set(KernelKind::gelu_forward, gelu_forward);
  set(KernelKind::gelu_backward, gelu_backward);
  set(KernelKind::swiglu_forward, swiglu_forward);
  set(KernelKind::swiglu_backward, swiglu_backward);
  set(KernelKind::cross_entropy, cross_entropy, cross_entropy_workspace);
  set(KernelKind::count_targets, count_targets);
  set(KernelKind::sum_of_squares, sum_of_squares);
  set(KernelKind::clip_coefficient, clip_coefficient);
  set(KernelKind::adamw, adamw);
  set(KernelKind::sgd, sgd);
  set(KernelKind::add, add);
  set(KernelKind::fill_zero, fill_zero);
  return table;
}

}  // namespace

const KernelTable& kernel_table() {
  static const KernelTable table = make_table();
  return table;
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
