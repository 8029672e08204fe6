// Every kernel of the CUDA device by its kind; operands as core/schedule/kernel.h lists them.
#pragma once

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/cross_entropy.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/embedding.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/kernels/norm.h"
#include "backend/cuda/kernels/optimizer.h"
#include "backend/cuda/kernels/rope.h"

namespace shardscope::cuda {

/// Starts the launches of one call on `stream`, which has `launch(body, LaunchShape)` and
/// `step_state()`: where in the device's memory the kernels find the state of the step.
template <class Stream>
void run_kernel(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  using Function = void (*)(const Kernel&, const KernelCall&, Stream&);
  static constexpr Function functions[kernel_kind_count] = {embedding_forward<Stream>,
                                                            embedding_backward<Stream>,
                                                            norm_forward<Stream>,
                                                            norm_backward<Stream>,
                                                            linear_forward<Stream>,
                                                            linear_backward_input<Stream>,
                                                            linear_backward_weight<Stream>,
                                                            rope_table<Stream>,
                                                            rope_forward<Stream>,
                                                            rope_backward<Stream>,
                                                            attention_forward<Stream>,
                                                            attention_backward<Stream>,
                                                            gelu_forward<Stream>,
                                                            gelu_backward<Stream>,
                                                            swiglu_forward<Stream>,
                                                            swiglu_backward<Stream>,
                                                            cross_entropy<Stream>,
                                                            count_targets<Stream>,
                                                            sum_of_squares<Stream>,
                                                            clip_coefficient<Stream>,
                                                            adamw<Stream>,
                                                            sgd<Stream>,
                                                            add<Stream>,
                                                            fill_zero<Stream>};
  functions[static_cast<std::size_t>(kernel.kind)](kernel, call, stream);
}

}  // namespace shardscope::cuda
