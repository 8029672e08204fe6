// What accelerate makes of a model under fsdp_version 2.
// Source: accelerate 1.15, utils/fsdp_utils.py, fsdp2_prepare_model, and utils/dataclasses.py,
// FullyShardedDataParallelPlugin.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/plans/fsdp2.h"
#include "core/pytorch/plans/transformers_facts.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// The plugin's settings that decide on groups, defaults resolved.
struct AccelerateFsdp2 {
  WrapPolicy wrap = WrapPolicy::none;
  /// transformer_cls_names_to_wrap; absent: the model's no_split_classes.
  std::optional<std::vector<std::string>> wrap_classes;
  double min_parameters = 0;  ///< min_num_params: elements; 0 means no wrapping by size
  bool reshard_after_forward = true;
  std::set<std::int32_t> ignored_parameters;  ///< those inside ignored_modules; first indices
  /// The launcher's word; absent: "no". Then trainable parameters become float32 first.
  std::optional<Dtype> mixed_precision;
  Fsdp2Mesh mesh;  ///< `given` only with a parallelism_config
  /// From accelerate 1.14 on embedding, last norm and head have units of their own. Before, they
  /// are in the root's, which is resharded like the others. Source: fsdp2_prepare_model of 1.9,
  /// 1.10, 1.12, 1.13 and 1.14.
  bool carves_ends = true;
};

/// Modules inside activation-checkpointing wrappers, `layers` around each.
struct CheckpointWrappers {
  std::set<std::int32_t> modules;
  int layers = 1;
  int around(std::int32_t module) const { return modules.contains(module) ? layers : 0; }
};

/// One call of fully_shard.
struct AccelerateFsdp2Call {
  /// Each with the number of wrappers around it that are sharded in its place; 0 is the root.
  std::vector<std::pair<std::int32_t, int>> modules;
  bool is_list = false;
  std::optional<bool> reshard_after_forward;  ///< absent: torch's default
};

struct AccelerateFsdp2Plan {
  ModuleTree tree;  ///< with the dtypes that were sharded
  Fsdp2Plan fsdp2;
};

/// The calls in order, on a model whose modules may be inside wrappers. Throws Refusal where a
/// class to wrap is not in the model.
std::vector<AccelerateFsdp2Call> accelerate_fsdp2_calls(const ModuleTree& tree,
                                                        const TransformersFacts& facts,
                                                        const AccelerateFsdp2& settings,
                                                        const CheckpointWrappers& wrappers);

/// Besides the units of the policy: the input embeddings, unless tied to the output; [final norm,
/// output embeddings] (tied: with the input embeddings between them), whole after forward; and the
/// root. Throws Refusal where the real calls raise, for example for BERT under its default classes,
/// whose embeddings lie inside a unit already.
AccelerateFsdp2Plan accelerate_fsdp2(const ModuleTree& tree, const TransformersFacts& facts,
                                     const AccelerateFsdp2& settings,
                                     Fsdp2Moment moment = Fsdp2Moment::after_first_forward);

/// get_module_children_bottom_up without its last, the model itself: children before their parent,
/// a shared module under each of its names. Source: accelerate 1.15.0 utils/other.py.
std::vector<std::int32_t> children_bottom_up(const ModuleTree& tree);

}  // namespace shardscope
