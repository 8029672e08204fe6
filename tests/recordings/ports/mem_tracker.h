// PyTorch's MemTracker: memory of a step by its own categories, for comparison with ours.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/recordings/ports/category_tracker.h"

namespace shardscope::eager {

/// _MemRefType, in its order.
enum class TrackedAs : std::uint8_t {
  parameter,
  buffer,
  gradient,
  activation,
  temporary,
  optimizer_state,
  other
};

/// Source: torch 2.15, torch/distributed/_tools/mem_tracker.py.
class MemTracker final : public CategoryTracker {
 public:
  explicit MemTracker(Session& s);

  void track_model(Module& model) override;
  void track_input(const Tensor& input) override;
  void enter(Module& model) override;

  void on_operator(Session& s, const OperatorCall& call) override;

 private:
  void track(const Tensor& tensor, TrackedAs category) {
    add(tensor, static_cast<Category>(category));
  }
  void track_parameters(Module& module, bool with_hooks);
  void hook_gradient(const Tensor& parameter);
  void before_forward(std::size_t place);
  void after_forward(std::size_t place);

  Session& s_;
  std::vector<const TensorImpl*> hooked_;
  std::size_t recomputed_ = no_place;  ///< outermost module that runs forward in backward
};

}  // namespace shardscope::eager
