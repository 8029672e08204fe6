// torch.distributed.tensor.parallel: how a module's parameters are cut and what its hooks do with
// inputs and outputs. Sources: torch 2.15, parallel/style.py; torchao 0.18,
// float8/float8_tensor_parallel.py.
#pragma once

#include <optional>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/tensor/distributed_tensor.h"

namespace shardscope::eager::parallel {

/// A module's output: how it leaves.
struct OutputStyle {
  Placement placement;
  bool local = true;            ///< use_local_output
  bool casts_gradient = false;  ///< to float8
};

/// ColwiseParallel of a linear layer. `input`: how its input comes in; a DTensor comes in
/// replicated and keeps being one.
struct ColwiseStyle {
  Placement input = replicated;
  bool input_is_distributed = false;
  OutputStyle output{shard(-1)};
  bool casts_input = false;  ///< to float8, where it does not come so
};
void colwise_linear(Session& s, const MeshAxisContext& axis, Module& module,
                    const ColwiseStyle& style);
/// ColwiseParallel of an embedding: split along the hidden dimension.
void colwise_embedding(Session& s, const MeshAxisContext& axis, Module& module, Placement output);

/// RowwiseParallel of a linear layer, its input split along the last dimension. `in_float8`: as
/// Float8RowwiseParallel.
void rowwise_linear(Session& s, const MeshAxisContext& axis, Module& module, Placement output,
                    bool in_float8 = false);
/// RowwiseParallel of an embedding: split along the vocabulary.
void rowwise_embedding(Session& s, const MeshAxisContext& axis, Module& module, Placement output);

/// SequenceParallel of a norm.
void sequence_parallel(const MeshAxisContext& axis, Module& module);
/// PrepareModuleInput of the first argument, a DTensor split along the sequence: gathered.
/// `in_float8`: as PrepareFloat8ModuleInput, cast before.
void gather_first_input(const MeshAxisContext& axis, Module& module, bool in_float8 = false);

/// What a parameter under a style is: how it lies, and how its gradient comes. A replicated
/// gradient of a split parameter is seen as the rank's own part, in a storage of all of it.
struct ParameterLayout {
  Placement placement;
  Placement gradient;
};

/// The gradient as the parameter lies: DTensor.redistribute of a leaf's gradient.
Tensor gradient_like_parameter(Session& s, const MeshAxisContext& axis, const Tensor& gradient,
                               const ParameterLayout& layout);

/// masks tokens that belong to other ranks: _MaskPartial._partition_value. The mask itself stays
/// in `mask`.
Tensor masked_ids(Session& s, const Tensor& ids, Tensor& mask);

}  // namespace shardscope::eager::parallel
