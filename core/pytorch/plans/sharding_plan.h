// What a runtime makes of a model: its units, buckets or partitions, and the bytes of model states.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/schedule/model_states.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// A parameter as FSDP2 keeps it on one rank.
struct ShardedParameter {
  std::string name;
  Shape shard_shape;
  std::int64_t padded_shard_elements = 0;  ///< stored by every rank
  bool operator==(const ShardedParameter&) const = default;
};

/// Parameters that are gathered and reduced together. Sizes are elements.
struct PlannedUnit {
  std::string name;  ///< of the wrapped module; "" is the root
  std::string class_name;
  std::vector<std::string> parameters;  ///< full names, in flat order
  std::int64_t elements = 0;            ///< of the parameters
  std::int64_t unpadded_elements = 0;   ///< with alignment fill
  std::int64_t padded_elements = 0;     ///< with padding to whole shards
  std::int64_t shard_elements = 0;      ///< stored by every rank
  /// Elements of a rank's shard that belong to no parameter.
  std::vector<std::int64_t> padding_elements_by_rank;
  std::vector<ShardedParameter> parameters_sharded;  ///< fsdp2, of one rank
  bool operator==(const PlannedUnit&) const = default;
};

/// Gradients that are reduced together: DDP's buckets, and the flat groups of DeepSpeed's stages
/// 1 and 2.
struct PlannedBucket {
  std::vector<std::string> parameters;  ///< full names, in flat order
  std::int64_t elements = 0;
  std::int64_t padded_elements = 0;
  std::int64_t shard_elements = 0;
  bool operator==(const PlannedBucket&) const = default;
};

/// A parameter as DeepSpeed's stage 3 splits it.
struct PlannedPartition {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t shard_elements = 0;
  std::int64_t padding_elements = 0;  ///< over all ranks
  bool persistent = false;            ///< stays gathered
  int sub_group = 0;
  bool operator==(const PlannedPartition&) const = default;
};

/// What the runtime does that the settings do not seem to say.
struct PlanWarning {
  std::string rule;  ///< "shared-parameters-split"
  std::string text;
  bool operator==(const PlanWarning&) const = default;
};

struct ShardingPlan {
  Runtime runtime = Runtime::native;
  // As they are shown: "full_shard", "replicate=1,shard=8", "transformer", "bf16_mixed", "adamw".
  std::string strategy;
  std::string mesh;
  std::string wrap;
  std::string precision;
  std::string optimizer;
  int world = 1;
  std::vector<PlannedUnit> units;            ///< native, fsdp1, fsdp2
  std::vector<PlannedBucket> buckets;        ///< ddp, deepspeed 1 and 2
  std::vector<PlannedPartition> partitions;  ///< deepspeed 3
  ModelStates whole;                         ///< not sharded
  ModelStates per_rank;              ///< between steps, what is gathered for computing apart
  ModelStates padding;               ///< what of per_rank belongs to no parameter
  std::optional<ModelStates> paper;  ///< per rank by the ZeRO paper's closed forms
  std::vector<PlanWarning> warnings;
};

}  // namespace shardscope
