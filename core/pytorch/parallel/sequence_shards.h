// Sequences that lie in parts on the ranks of an axis: gathered before a module, and sums
// scattered behind it. Source: spmd_types 0.2.3, _collectives.py (_AllGatherShard,
// _ReduceScatterShard), as torchtitan 0.3.0 calls them (protocols/module.py).
#pragma once

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::parallel {

/// redistribute(S(1), R): of (B, T, D) all ranks' tokens.
Tensor gather_sequence(Session& s, const ProcessGroup& ranks, Tensor own);
/// redistribute(P, S(1)): of each rank's summand (B, T, D) this rank's tokens of the sum.
Tensor scatter_sequence(Session& s, const ProcessGroup& ranks, Tensor summand);

/// A tensor of attention (B, T, H, D) before it: of all ranks' tokens. Null: as it is.
Tensor with_all_tokens(Session& s, const ProcessGroup* ranks, Tensor own);

/// forward_with_redistribution of the first input, or of the output. Null ranks: nothing changes.
Module::Forward with_whole_sequence(const ProcessGroup* ranks, Module::Forward forward);
Module::Forward with_scattered_sum(const ProcessGroup* ranks, Module::Forward forward);
Module::Forward with_gathered_output(const ProcessGroup* ranks, Module::Forward forward);

}  // namespace shardscope::eager::parallel
