// What a FullyShardedDataParallel constructor does with the states of its module before it
// flattens them.
#pragma once

#include "core/pytorch/runtimes/fsdp1/unit.h"

namespace shardscope::eager::fsdp1 {

/// _move_module_to_device: what is on the CPU goes to the session's device, units inside apart.
void move_to_device(Session& s, Module& module);

/// sync_module_states: rank 0's parameters, and buffers that no unit inside has sent, to all.
/// Hybrid strategies send them twice, among the replicas and then among the shards.
void sync_module_states(Session& s, Unit& unit, Module& module, const Tensors& parameters);

}  // namespace shardscope::eager::fsdp1
