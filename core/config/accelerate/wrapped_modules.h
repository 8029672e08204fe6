// Which modules activation checkpointing and fully_shard take, by name.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/config/accelerate/prepared.h"
#include "core/pytorch/plans/accelerate_fsdp2.h"

namespace shardscope::accelerate {

/// Modules inside activation-checkpointing wrappers.
struct Checkpointed {
  std::set<std::int32_t> modules;
  int wrappers = 1;  ///< around each: 2 with offloading

  /// The name of module `index`, or of the wrapper `outside` levels around it, as named_modules()
  /// lists it: "model.layers.0._checkpoint_wrapped_module".
  std::string name_of(const ModuleTree& tree, std::int32_t index, int outside = 0) const;
  /// Names of the CheckpointWrappers themselves.
  std::vector<std::string> wrapper_names(const ModuleTree& tree) const;
};

/// apply_activation_checkpointing with FSDP1's policy: without one, every module.
/// Source: torch 2.15 distributed/algorithms/_checkpoint/checkpoint_wrapper.py, fsdp/wrap.py.
Checkpointed checkpoint_like_fsdp1(const FsdpPlugin& plugin, const ModuleTree& tree);
/// fsdp2_apply_ac; without a policy it raises TypeError.
Checkpointed checkpoint_like_fsdp2(const FsdpPlugin& plugin, const ModuleTree& tree);

/// What of the plugin decides on calls of fully_shard.
AccelerateFsdp2 fully_shard_settings(const FsdpPlugin& plugin);

/// The calls of fsdp2_prepare_model, in order.
std::vector<FullyShardCall> fully_shard_calls(const FsdpPlugin& plugin, const PreparedModel& model,
                                              const Checkpointed& checkpointed);

/// Modules whose whole name the pattern matches, in named_modules() order.
std::vector<std::int32_t> matching_modules(const ModuleTree& tree, const std::string& pattern,
                                           const Checkpointed& checkpointed);
/// Parameters of a module and everything below it, each once.
std::set<std::int32_t> parameters_below(const ModuleTree& tree, std::int32_t module);

}  // namespace shardscope::accelerate
