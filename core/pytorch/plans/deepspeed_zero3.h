// DeepSpeed ZeRO stage 3: every parameter split among the ranks, and sub-groups of them.
// Source: deepspeed 0.19.8, runtime/zero/partition_parameters.py, parameter_offload.py, stage3.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pytorch/plans/deepspeed_zero.h"

namespace shardscope {

/// Sizes are elements.
struct Zero3Parameter {
  std::int32_t parameter = 0;           ///< first index in ModuleTree::parameters
  std::int64_t partition_elements = 0;  ///< stored by every rank: ceil(elements / world)
  std::int64_t padding_elements = 0;    ///< over all ranks
  bool persistent = false;              ///< stays gathered between steps; it is partitioned as well
  bool operator==(const Zero3Parameter&) const = default;
};

/// Parameters that the optimizer steps together.
struct Zero3SubGroup {
  std::vector<std::int32_t> parameters;
  int optimizer_group = 0;
  std::int64_t partition_elements = 0;  ///< of every rank; the float32 masters have as many
  bool operator==(const Zero3SubGroup&) const = default;
};

struct Zero3Plan {
  std::vector<Zero3Parameter> parameters;           ///< named_parameters(), frozen ones too
  std::vector<std::int32_t> persistent_parameters;  ///< those marked above
  std::vector<Zero3SubGroup> sub_groups;
  std::int64_t partition_elements = 0;  ///< of all sub-groups, on every rank
};

/// A sub-group closes once its partitions reach sub_group_size, so it overshoots. Throws Refusal if
/// nothing is trained, or in several dtypes, or for a scalar. Example: parameters of 10 and 3
/// elements on 4 ranks: partitions of 3 and 1, padding of 2 and 1.
Zero3Plan zero3_plan(const ModuleTree& tree, const OptimizerGroups& groups,
                     const ZeroSettings& settings);

/// Padding that DeepSpeed books for a parameter on a rank: all of it on the last.
std::int64_t booked_padding(const Zero3Parameter& parameter, int rank, int world);

}  // namespace shardscope
