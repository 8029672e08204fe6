// What selective activation checkpointing keeps of operators, and gives back when they run again.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager {

/// torch.utils.checkpoint's _CachingTorchDispatchMode and _CachedTorchDispatchMode: per operator
/// the outputs of its calls, in order; None of a call that runs again.
class SelectiveCache {
 public:
  explicit SelectiveCache(std::function<bool(const Operator&)> saves) : saves_(std::move(saves)) {}

  /// In forward: whether the outputs of this call are kept.
  bool keeps(const Operator& op) const { return saves_(op); }
  void note(const Operator& op, std::optional<Tensors> outputs);
  /// In recomputation: what was kept of the operator's next call, if anything; given away once.
  std::optional<Tensors> take(const Operator& op);
  void rewind();

 private:
  struct Calls {
    const Operator* op;
    std::vector<std::optional<Tensors>> outputs;
    std::size_t next = 0;
  };
  Calls& calls_of(const Operator& op);

  std::function<bool(const Operator&)> saves_;
  std::vector<Calls> calls_;
};

/// An operator that a tensor subclass makes of others in `run`: a dispatch mode sees it alone, so
/// that its result is what a selective checkpoint keeps.
Tensor as_one_operator(Session& s, const Operator& op, const std::function<Tensor()>& run);

}  // namespace shardscope::eager
