// Context parallelism: each rank holds a part of the sequence, keys and values travel. Source:
// torch 2.15, torch/distributed/tensor/experimental/_context_parallel/_attention.py.
#pragma once

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/tensor/distributed_tensor.h"

namespace shardscope::eager::parallel {

/// set_rotate_method: one gather of all keys and values, or an exchange with the neighbours for
/// each rank.
enum class RotateMethod : std::uint8_t { all_gather, all_to_all };

struct RingSettings {
  RotateMethod rotate = RotateMethod::all_gather;
  /// Each rank holds one part of the head of the sequence and one of its tail, so that causal
  /// attention is as much work for all.
  bool load_balance = true;
};

/// scaled_dot_product_attention of (B, H, T / ranks, D), causal over the whole sequence.
Tensor ring_attention(Session& s, const MeshAxisContext& axis, const RingSettings& settings,
                      Tensor query, Tensor key, Tensor value);

/// torch.distributed.tensor.experimental.context_parallel around an iteration: token ids and
/// labels that are not restored, and buffers of a module that are. While it lives the tensors have
/// this rank's part of dimension 1, or 0 of buffers.
class ContextParallelScope {
 public:
  ContextParallelScope(Session& s, const MeshAxisContext& axis, const RingSettings& settings,
                       Tensors inputs, std::vector<Tensor*> buffers);
  ContextParallelScope(const ContextParallelScope&) = delete;
  ContextParallelScope& operator=(const ContextParallelScope&) = delete;
  ~ContextParallelScope();

  /// The inputs' parts, in the storages that they had.
  const Tensors& inputs() const { return inputs_; }

 private:
  std::vector<Tensor*> buffers_;
  Tensors originals_, whole_;
  Tensors shards_;
  Tensors inputs_;
  Tensor last_;  ///< the copy that the loop's variable still names
};

}  // namespace shardscope::eager::parallel
