// DeepSpeed ZeRO stages 1 and 2: each optimizer group flattened and split evenly among the ranks.
// Source: deepspeed 0.19.8, runtime/zero/stage_1_and_2.py, and runtime/bf16_optimizer.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pytorch/plans/deepspeed_zero.h"

namespace shardscope {

/// One optimizer group. Sizes and offsets are elements.
struct ZeroFlatGroup {
  std::vector<std::int32_t> parameters;  ///< in flat order, round robin applied
  std::vector<std::int64_t> offsets;     ///< where each parameter starts
  std::vector<std::int64_t> padding;     ///< after each parameter, none after the last
  std::int64_t used_elements = 0;        ///< parameters and the padding between them
  std::int64_t flat_elements = 0;        ///< padded to a multiple of 2 * world
  std::int64_t partition_elements = 0;   ///< of every rank; the master weights have as many
  Dtype dtype = Dtype::float32;          ///< of the flat parameters; masters are float32
  bool operator==(const ZeroFlatGroup&) const = default;
};

/// The groups of stage 1 or 2 (ZeroOptimizer::bf16 included, which knows neither round robin nor
/// alignment). Throws Refusal for a group without anything to
/// optimize, or a scalar. Example: parameters of 10
/// and 3 elements on 2 ranks: 13 padded to 16, 8 each.
std::vector<ZeroFlatGroup> zero_flat_groups(const ModuleTree& tree, const OptimizerGroups& groups,
                                            const ZeroSettings& settings);

/// What lies in one rank's partition.
struct ZeroPartition {
  std::vector<std::int32_t> parameters;  ///< those of which a part or all of it lies here
  std::int64_t first_offset = 0;         ///< where in its first parameter the partition starts
  std::int64_t padding_elements = 0;     ///< at its end
  bool operator==(const ZeroPartition&) const = default;
};
ZeroPartition zero_partition(const ModuleTree& tree, const ZeroFlatGroup& group, int rank);

/// Padding that BF16_Optimizer books for a rank: all of it on the last, even where it is longer
/// than that rank's partition.
std::int64_t booked_padding(const ZeroFlatGroup& group, int rank);

}  // namespace shardscope
