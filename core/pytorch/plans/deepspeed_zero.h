// DeepSpeed ZeRO: the settings that decide how states are partitioned, and which optimizer takes
// them. Source: deepspeed 0.19.8, runtime/engine.py and runtime/zero/config.py.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/dtype.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope {

/// Keys of the DeepSpeed config, defaults included. Sizes are elements. Whether the model was built
/// under deepspeed.zero.Init makes no difference to partitions.
struct ZeroSettings {
  int stage = 1;  ///< 1, 2 or 3
  int world = 1;  ///< data-parallel ranks
  /// bf16 or fp16 enabled: all parameters become that dtype; absent: they stay as they are.
  std::optional<Dtype> precision;
  std::optional<Dtype> gradient_accumulation;  ///< data_types.grad_accum_dtype
  bool offload_optimizer = false;
  bool round_robin_gradients = false;                      ///< stages 1 and 2
  bool parameter_alignment = false;                        ///< stages 1 and 2
  std::int64_t sub_group_size = 1'000'000'000;             ///< stage 3, of partitions
  std::int64_t parameter_persistence_threshold = 100'000;  ///< stage 3
  std::int64_t model_persistence_threshold = std::numeric_limits<std::int64_t>::max();  ///< stage 3
};

/// Parameters of each group of the optimizer: first indices in ModuleTree::parameters.
using OptimizerGroups = std::vector<std::vector<std::int32_t>>;

/// The parameters of named_parameters(): a shared one once. As the only group of the optimizer:
/// {all_parameters(tree)}.
std::vector<std::int32_t> all_parameters(const ModuleTree& tree);

enum class ZeroOptimizer : std::uint8_t {
  stage_1_and_2,  ///< DeepSpeedZeroOptimizer
  bf16,           ///< BF16_Optimizer: stage 1 in bfloat16 with float32 gradient accumulation
  stage_3,        ///< DeepSpeedZeroOptimizer_Stage3
};

ZeroOptimizer zero_optimizer(const ZeroSettings& settings);

/// Throws Refusal for a scalar: the engine broadcasts parameters as bytes, which a tensor without a
/// dimension has no view of.
void refuse_scalars(const ModuleTree& tree);

/// is_optimized_parameter: trainable, and not empty.
bool is_optimized(const TreeParameter& parameter);

/// The dtype of a parameter under the engine.
Dtype dtype_under(const ZeroSettings& settings, const TreeParameter& parameter);

}  // namespace shardscope
