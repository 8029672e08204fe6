// Memory that an operator's CUDA kernels take beside its outputs, and give back before it returns.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/pytorch/engine/observer.h"

namespace shardscope::eager {

/// What scratch depends on beside the tensors. Defaults: an H100.
struct KernelDevice {
  int compute_capability = 90;
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048;
  /// False: CUBLAS_WORKSPACE_CONFIG=:0:0 and CUBLASLT_WORKSPACE_SIZE=0.
  bool blas_workspaces = true;
};

/// The data-centre device of a compute capability: an A100 below 9.0, else an H100.
KernelDevice kernel_device(int compute_capability);

/// The requests of one operator in the order in which the allocator sees them.
class ScratchPlan {
 public:
  enum class Kind : std::uint8_t { take, outputs, give_back };
  struct Step {
    Kind kind = Kind::take;
    std::int64_t value = 0;  ///< of take: bytes; of give_back: which of those taken
  };

  /// Takes `bytes`; the number of this piece, or `nothing` of 0 bytes.
  int take(std::int64_t bytes);
  /// The operator's outputs are allocated here; at the start, unless it is said.
  void outputs();
  void give_back(int piece);
  /// Gives back whatever is still held, the last first, as destructors do.
  void finish();
  std::span<const Step> steps() const { return {steps_.data(), count_}; }
  bool empty() const { return count_ == 0; }
  void clear() { *this = {}; }

 private:
  static constexpr int nothing = -1;
  void add(Step step) { steps_[count_++] = step; }

  static constexpr int most_pieces = 16;
  std::array<Step, 2 * most_pieces + 1> steps_{};
  std::size_t count_ = 0;
  int pieces_ = 0;
  std::uint32_t held_ = 0;  // one bit a piece
};

using ScratchRule = void (*)(const OperatorCall& call, const KernelDevice& device,
                             ScratchPlan& plan);

/// How much an operator takes; none: nothing. Source: ATen/native/cuda of torch 2.15, read there
/// and seen in the allocator's traces.
ScratchRule scratch_rule_of(std::string_view operator_name);

// The rules that have a file of their own.
void reduction_scratch(const OperatorCall& call, const KernelDevice& device, ScratchPlan& plan);
void flash_forward_scratch(const OperatorCall& call, const KernelDevice& device, ScratchPlan& plan);
void flash_backward_scratch(const OperatorCall& call, const KernelDevice& device,
                            ScratchPlan& plan);
void cudnn_backward_scratch(const OperatorCall& call, const KernelDevice& device,
                            ScratchPlan& plan);
void efficient_forward_scratch(const OperatorCall& call, const KernelDevice& device,
                               ScratchPlan& plan);
void efficient_backward_scratch(const OperatorCall& call, const KernelDevice& device,
                                ScratchPlan& plan);

}  // namespace shardscope::eager
