// What the native runtime can run at this commit: the one list that train, the job file, the
// command line and plan read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/precision.h"
#include "core/schedule/strategy.h"

namespace shardscope {

struct NativeAbilities {
  std::vector<ShardingStrategy> strategies;
  std::vector<Precision> precisions;
  std::vector<OptimizerKind> optimizers;
};
const NativeAbilities& native_abilities();

/// "no_shard, zero1, shard_grad_op": names in the list's order.
template <class Value>
std::string names_of(const std::vector<Value>& values, std::string_view separator = ", ") {
  std::string text;
  for (const Value value : values)
    text.append(text.empty() ? "" : separator).append(name_of(value));
  return text;
}

}  // namespace shardscope
