// What FSDP2 finds out at the first forward: which module is the root, and which groups cannot run.
// Source: torch 2.15, torch/distributed/fsdp/_fully_shard/_fsdp_state.py, FSDPState._lazy_init.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/pytorch/plans/fsdp2.h"

namespace shardscope {

/// What one call of fully_shard left behind on its modules.
struct Fsdp2State {
  std::vector<std::int32_t> modules;
  std::optional<std::size_t> group;  ///< index in Fsdp2Plan::groups; none: it had no parameters
  bool automatic_reshard = true;
};

struct Fsdp2States {
  static constexpr std::int32_t none = -1;
  std::vector<Fsdp2State> states;       ///< in the order of the calls
  std::vector<std::int32_t> of_module;  ///< by module: index in `states`, or none
  /// A parameter that was sharded twice, which only meshes of one rank allow.
  std::optional<std::int32_t> sharded_twice;
};

/// Groups of roots are not freed after forward unless that was asked for; sets
/// `refused_at_first_forward` where the forward, or the backward after it, raises. Groups still
/// stand in the order of the calls.
void run_first_forward(const ModuleTree& tree, const Fsdp2States& states, Fsdp2Plan& plan);

}  // namespace shardscope
