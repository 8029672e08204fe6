// Activation checkpointing: torch.utils.checkpoint.
#pragma once

#include <functional>
#include <memory>

#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

using CheckpointedFunction = std::function<Tensors(Session&, const Arguments&)>;

struct CheckpointOptions {
  bool reentrant = false;
  bool preserve_rng_state = true;
  /// Recomputation ends with the last tensor that backward needs; non-reentrant only.
  bool early_stop = true;
  /// create_selective_checkpoint_contexts: operators whose outputs are kept (MUST_SAVE); empty: no
  /// selection. Non-reentrant only.
  std::function<bool(const Operator&)> saves = {};
};

/// torch.utils.checkpoint.checkpoint(function, *arguments). Of a reentrant one all arguments are
/// positional.
Tensors checkpoint(Session& s, const CheckpointOptions& options,
                   const CheckpointedFunction& function, Arguments arguments);

/// torch.distributed.algorithms._checkpoint.checkpoint_wrapper: a module around `module`, which
/// becomes its child "_checkpoint_wrapped_module".
std::shared_ptr<Module> checkpoint_wrapper(std::shared_ptr<Module> module,
                                           CheckpointOptions options);

/// gradient_checkpointing_enable() of a layer of transformers 5.23: the checkpoint is around its
/// forward, so that hooks of the module do not run again. Source: modeling_layers.py.
void checkpoint_forward(Module& layer, CheckpointOptions options);

}  // namespace shardscope::eager
