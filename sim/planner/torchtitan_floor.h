// What a micro-batch of torchtitan's Llama takes at least, by formula.
#pragma once

#include "sim/planner/pipeline_costs.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// No more than `plain_step` of the same choice of torchtitan, without a recording: its matrix
/// products and attention by the cost model, what activations, norms, residual sums and the steps
/// of ring attention move at least, and the collectives of an axis tensor, which kernels wait for
/// (4 of a block's input in the forward, 4 in the backward: core/pytorch/runtimes/tensor/styles.h).
/// Of n tokens of a rank, width d, feed-forward h, keys and values v, e bytes an element and t
/// ranks of tensor a block keeps
///
///   e n (4 d + 2 v + 4 h) / t           without checkpointing; where t is 1, 2 e n d more
///   e n d / t                           checkpointed
///
/// and the loss 8 bytes of each logit. Compiled blocks make one kernel of what lies between
/// products, and keep e n (3 d + 2 v + 3 h) / t; what they move is not claimed, and of a compiled
/// loss no memory. With products in 8 bits neither what moves nor what is kept is claimed.
///
/// Of a mixture of experts products alone are claimed; of its blocks their inputs, and without
/// checkpointing what attention and experts keep; of the loss one of its parts.
PlainStep torchtitan_floor(const Choice& choice, const TrialInputs& inputs);

/// The same by part, for stages: no more than `torchtitan_costs`.
ModelCosts torchtitan_cost_floor(const Choice& choice, const TrialInputs& inputs);

}  // namespace shardscope::planner
