#include "core/schedule/kernel.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace shardscope {
namespace {

constexpr std::array<std::string_view, kernel_kind_count> kernel_names{"embedding_forward",
                                                                       "embedding_backward",
                                                                       "norm_forward",
                                                                       "norm_backward",
                                                                       "linear_forward",
                                                                       "linear_backward_input",
                                                                       "linear_backward_weight",
                                                                       "rope_table",
                                                                       "rope_forward",
                                                                       "rope_backward",
                                                                       "attention_forward",
                                                                       "attention_backward",
                                                                       "gelu_forward",
                                                                       "gelu_backward",
                                                                       "swiglu_forward",
                                                                       "swiglu_backward",
                                                                       "cross_entropy",
                                                                       "count_targets",
                                                                       "sum_of_squares",
                                                                       "clip_coefficient",
                                                                       "adamw",
                                                                       "sgd",
                                                                       "add",
                                                                       "fill_zero"};

template <std::size_t... i>
Kernel default_kernel(KernelKind kind, std::index_sequence<i...>) {
  static const std::array<Kernel, sizeof...(i)> kernels{
      std::variant_alternative_t<i, KernelVariant>{}...};
  return kernels[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string_view name_of(KernelKind kind) { return kernel_names[static_cast<std::size_t>(kind)]; }

Kernel default_kernel(KernelKind kind) {
  return default_kernel(kind, std::make_index_sequence<kernel_kind_count>());
}

const AttentionKernel* attention_of(const Kernel& kernel) {
  if (const auto* forward = kernel.get_if<AttentionForwardKernel>()) return forward;
  return kernel.get_if<AttentionBackwardKernel>();
}

Dtype Kernel::dtype() const {
  return visit([](const auto& kernel) { return dtype_of(kernel); });
}

void Kernel::wrong_kind(KernelKind wanted) const {
  fmt::print(stderr, "shardscope: broken invariant: a kernel {} is taken for a kernel {}\n",
             name_of(kind()), name_of(wanted));
  std::abort();
}

}  // namespace shardscope
