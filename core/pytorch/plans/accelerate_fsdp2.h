// What accelerate makes of a model under fsdp_version 2.
// Source: accelerate 1.15, utils/fsdp_utils.py, fsdp2_prepare_model, and utils/dataclasses.py,
// FullyShardedDataParallelPlugin.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
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
  std::int64_t min_parameters = 0;  ///< min_num_params: elements; 0 means no wrapping by size
  bool reshard_after_forward = true;
  std::set<std::int32_t> ignored_parameters;  ///< those inside ignored_modules; first indices
  /// The launcher's word; absent: "no". Then trainable parameters become float32 first.
  std::optional<Dtype> mixed_precision;
  Fsdp2Mesh mesh;  ///< `given` only with a parallelism_config
};

struct AccelerateFsdp2Plan {
  ModuleTree tree;  ///< with the dtypes that were sharded
  Fsdp2Plan fsdp2;
};

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
