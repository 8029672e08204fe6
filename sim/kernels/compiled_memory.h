// Memory under torch.compile: what a fused kernel never writes out, and what backward recomputes.
#pragma once

#include "core/schedule/compile_scope.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// The host program of compiled code, from a recording of eager PyTorch:
/// - a value that is made and used within one fused kernel gets no memory;
/// - a value that only fused kernels of backward read is not kept where they can compute it again
///   from less. What is kept is the minimum cut, in bytes, between what cannot be recomputed and
///   what backward reads. A value that a product or attention of backward reads is kept.
/// - a pointwise value that several fused kernels read is made again in each (InlinedValues).
/// Source: torch/_functorch/partitioners.py (min_cut_rematerialization_partition): what it bans
/// from recomputation, and that values which are not written out anyway weigh twice. That weights
/// grow with the distance from backward, and other bans, are left out.
/// What a collective of the graph returns is kept as a product's result is.
/// A schedule of model_in_parts is returned as it is: what compiled code keeps there is not known.
/// Activation checkpointing stays as it was recorded, but for results that a selective one keeps
/// and nobody reads: they go. Expects the schedule before with_kernels. Example: silu(gate) * up of
/// [n, m] in bfloat16, followed by a product: eager PyTorch keeps gate, silu(gate), up and their
/// product; compiled code keeps gate, up and the product.
Schedule with_compiled_memory(Schedule schedule, CompileScope scope);

/// The recorded schedule as torch.compile runs it: its memory, and its kernels (with_kernels).
/// None: as it is.
Schedule compiled(Schedule schedule, CompileScope scope);

}  // namespace shardscope
