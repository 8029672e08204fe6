// FSDP1's forward and backward passes. Source: torch 2.15, _runtime_utils.py.
#pragma once

#include "core/pytorch/runtimes/fsdp1/flat_handle.h"

namespace shardscope::eager::fsdp1 {

/// _lazy_init, by whichever of forward, clipping, summoning or state dicts comes first.
void lazy_init(Session& s, Shared& shared);

/// FullyShardedDataParallel.forward around the wrapped module.
Tensors forward(Session& s, Unit& unit, const Arguments& arguments);

/// _unshard: every call takes part in the rate limiter.
void unshard(Session& s, Unit& unit, StreamId unshard_stream, StreamId pre_unshard_stream);
/// _reshard.
void reshard(Session& s, Unit& unit, bool free_unsharded);

enum class Pass : std::uint8_t { forward, backward };
/// _prefetch_handle: unshards the unit that comes next in `pass`, if it is not yet.
void prefetch(Session& s, Unit& unit, Pass pass);

/// _pre_backward_hook, on the gradient of an output.
void pre_backward(Session& s, Unit& unit);
/// _post_backward_hook, when the flat gradient is complete.
void post_backward(Session& s, Unit& unit);
/// _post_backward_reshard_only_hook, of a frozen unit.
void post_backward_reshard_only(Session& s, Unit& unit);
/// _reduce_grad and _reduce_grad_no_shard, on the post-backward stream.
void reduce_gradient(Session& s, Unit& unit);

/// _cast_forward_inputs: floating point tensors to `dtype`; absent: as they are.
void cast_inputs(Session& s, Arguments& arguments, std::optional<Dtype> dtype);
/// _reset_flat_param_grad_info_if_needed, of all handles.
void reset_gradient_info_if_needed(const Shared& shared);

}  // namespace shardscope::eager::fsdp1
