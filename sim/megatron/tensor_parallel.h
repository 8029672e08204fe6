// The collectives of tensor parallelism in the schedule of one rank's part of a model.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.h"

namespace shardscope {

struct TensorParallel {
  int ranks = 1;            ///< neighbours: they have the same data
  std::int64_t tokens = 0;  ///< of a micro-batch
  std::int64_t hidden = 0;
  /// Norms, dropout and sums of the residual stream see a part of the tokens (sequence
  /// parallelism). A sum is then a reduce-scatter and an all-gather; not that of the loss.
  bool divides_sequence = false;
  /// Sums move in pieces beside the products before and behind them, and compute waits for none.
  bool overlaps = false;
  /// All tokens are copied before they are reduced in parts, and after they are gathered: they are
  /// the second dimension in torchtitan (the first in Megatron), and collectives divide the first.
  /// Source: PyTorch torch/distributed/_functional_collectives.py (all_gather_tensor,
  /// reduce_scatter_tensor: torch.cat of torch.chunk).
  bool copies_tokens = false;
  bool operator==(const TensorParallel&) const = default;
};

/// Adds to the steady step what ranks of a group sum over: in the forward, and where it is run
/// again, the results of products that are divided by rows and of the embedding, and the loss's
/// maxima, sums and logits of the labels; in the backward the gradients of what goes into products
/// that are divided by columns. Compute waits for each, as Megatron's does, unless they overlap.
/// Other groups are spread out: their ranks are as far apart as a tensor group is wide. Source:
/// Megatron-LM core/tensor_parallel/{layers,mappings,cross_entropy}.py; arXiv:1909.08053, section
/// 3; Transformer Engine module/{layernorm_linear,linear}.py (ub_overlap_ag, ub_overlap_rs).
Schedule with_tensor_parallel(Schedule schedule, const TensorParallel& tensor);

/// Norms, dropout and residual sums of the steady step with 1 / `ranks` of their bytes. `schedule`
/// has the kernels that run already. Source: Megatron-LM core/tensor_parallel/mappings.py;
/// arXiv:2205.05198, section 4.2.2. Example: a norm of 800 bytes on 4 ranks moves 200.
Schedule with_divided_sequence(Schedule schedule, int ranks);

}  // namespace shardscope
