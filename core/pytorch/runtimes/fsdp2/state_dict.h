// State dicts of FSDP2 through torch.distributed.checkpoint.state_dict.
#pragma once

#include <string>
#include <vector>

#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/fsdp2/fully_shard.h"

namespace shardscope::eager::fsdp2 {

/// Names and tensors, in the order of Module.state_dict(): a tied parameter stands under each of
/// its names. What holds it keeps the tensors alive.
struct StateDict {
  struct Entry {
    std::string name;
    Tensor tensor;
    const Parameter* parameter = nullptr;  ///< null: a buffer, or managed by no group
  };
  std::vector<Entry> entries;
};

/// StateDictOptions.
struct StateDictOptions {
  bool full_state_dict = false;
  bool cpu_offload = false;
  bool broadcast_from_rank0 = false;
  bool ignore_frozen_params = false;
};

/// model.state_dict(): the shards as they are.
StateDict state_dict(Session& s, FullySharded& sharded, Module& root);

/// get_model_state_dict: with full_state_dict one all-gather a tensor; with cpu_offload too, ranks
/// other than 0 drop each at once and get nothing.
StateDict get_model_state_dict(Session& s, FullySharded& sharded, Module& root,
                               const StateDictOptions& options);

/// get_optimizer_state_dict's tensors: of each parameter exp_avg and exp_avg_sq, or what there is.
std::vector<Tensor> get_optimizer_state_dict(Session& s, FullySharded& sharded, Module& root,
                                             const ParameterOptimizer& optimizer,
                                             const StateDictOptions& options);

/// set_model_state_dict of what `get_model_state_dict` gave. A full one is scattered tensor by
/// tensor over each rank's own mesh, or broadcast from rank 0 of `world`, after the names; `given`
/// then holds what was loaded in the place of the wholes.
void set_model_state_dict(Session& s, FullySharded& sharded, Module& root,
                          const ProcessGroup& world, StateDict& given,
                          const StateDictOptions& options);

}  // namespace shardscope::eager::fsdp2
