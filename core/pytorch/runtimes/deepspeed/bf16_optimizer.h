// BF16_Optimizer: stage 1 in bfloat16 with gradients accumulated in float32.
// Source: deepspeed 0.19.8, runtime/bf16_optimizer.py, and engine.py, buffered_allreduce_fallback.
#pragma once

#include <vector>

#include "core/pytorch/runtimes/deepspeed/flat_group.h"

namespace shardscope::eager::deepspeed {

/// Whether these settings lead to it.
bool takes_bf16_optimizer(const Setup& setup);

class Bf16Optimizer final : public ZeroOptimizerBase {
 public:
  explicit Bf16Optimizer(Setup setup);

  void start_forward() override {}
  void start_backward() override;
  Tensor scale(const Tensor& loss) override { return loss; }
  void end_backward() override;
  void step() override;
  void zero_grad() override;
  std::vector<HeldTensor> held() const override;

 private:
  /// A group's gradients: whole on every rank, in one float32 tensor.
  struct Gradients {
    Tensor flat;
    Tensors views;  ///< in the order of the group's parameters
    std::vector<bool> present;
  };

  void add_gradient(std::size_t group, std::size_t place);
  void all_reduce_gradients();
  Tensors present_gradients() const;
  Tensor global_norm();
  void clip(const Tensor& norm);
  void clear_gradients();
  const Tensor& parameter(std::size_t group, std::size_t place) const;

  Setup setup_;
  std::vector<FlatGroup> groups_;
  std::vector<Gradients> gradients_;  ///< by group
};

}  // namespace shardscope::eager::deepspeed
