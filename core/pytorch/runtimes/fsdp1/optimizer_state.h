// FullyShardedDataParallel.optim_state_dict.
#pragma once

#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/fsdp1/state_dict.h"

namespace shardscope::eager::fsdp1 {

struct OptimizerStateOptions {
  bool sharded = false;  ///< SHARDED_STATE_DICT; else FULL_STATE_DICT
  bool rank0_only = false;
  bool offload_to_cpu = true;
};

/// The optimizer's tensors by parameter and state: "model.norm.weight.exp_avg". Empty on ranks that
/// do not save. Source: torch 2.15, _optim_utils.py, _optim_state_dict.
StateDict optimizer_state_dict(Session& s, FullySharded& model, const ParameterOptimizer& optimizer,
                               const OptimizerStateOptions& options);

}  // namespace shardscope::eager::fsdp1
