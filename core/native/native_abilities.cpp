#include "core/native/native_abilities.h"

namespace shardscope {

const NativeAbilities& native_abilities() {
  static const NativeAbilities abilities{
      .strategies = {ShardingStrategy::no_shard, ShardingStrategy::zero1,
                     ShardingStrategy::shard_grad_op, ShardingStrategy::full_shard,
                     ShardingStrategy::hybrid_shard, ShardingStrategy::hybrid_shard_zero2},
      .precisions = {Precision::fp32, Precision::bf16, Precision::bf16_mixed},
      .optimizers = {OptimizerKind::adamw, OptimizerKind::sgd}};
  return abilities;
}

}  // namespace shardscope
