// TRL's fused language-model head: log-probabilities of labels, of logits that are made in tiles.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

struct FusedHeadInput {
  const Tensor &hidden, &weight, &labels;  ///< (B, T, H), (V, H), (B, T)
  const TiledHead& settings;
};

/// model(input_ids, labels=labels, fused_lm_head=True): {loss, log-probabilities (B, T - 1),
/// entropy, mean logits, is_top1}, of the last three those that are asked for. A head without
/// bias. Source: TRL 1.16, trainer/utils.py (add_fused_lm_head), kernels/chunked_logprob.py.
Tensors fused_head(Session& s, const FusedHeadInput& input);

}  // namespace shardscope::eager
