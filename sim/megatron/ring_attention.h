// Ring attention in the schedule of one rank's part of a sequence.
#pragma once

#include "core/schedule/schedule.h"

namespace shardscope {

struct RingAttention {
  int ranks = 1;     ///< that share a sequence
  int distance = 1;  ///< from one to the next
  /// torch.compile puts a wait right behind each collective that it traces, so that compute waits
  /// for what is exchanged. Else it runs behind attention. Source: PyTorch
  /// torch/distributed/_functional_collectives.py (_maybe_wrap_tensor).
  bool waits = false;
  bool operator==(const RingAttention&) const = default;
};

/// Attention's work with the keys of all ranks, of which each rank sees half, since a sequence is
/// dealt out so that all have the same to do. Where compute waits, the exchange and the merging
/// of parts stand behind it in the steady step: keys and values are gathered once, forward and
/// backward; their gradients go from rank to rank in float32, once for each rank. Source: PyTorch
/// 2.6 torch/distributed/tensor/experimental/_attention.py (_templated_ring_attention,
/// _templated_ring_attention_backward, _AllGatherRotater, _AllToAllRotater, _SDPAMerger). Else
/// only the merging stands behind it, in 16 bits. Source: Transformer Engine
/// pytorch/attention/dot_product_attention/context_parallel.py (flash_attn_fwd_out_correction,
/// AttnFuncWithCPAndKVP2P).
Schedule with_ring_attention(Schedule schedule, const RingAttention& ring);

}  // namespace shardscope
