// Options of `shardscope model` about whose rules decide on units and shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/job_options.h"
#include "cli/place_options.h"
#include "core/model/model.h"
#include "core/sharding/sharding_plan.h"

namespace shardscope {

struct ShardingOptions {
  std::optional<std::string> runtime;
  std::optional<std::string> accelerate, deepspeed, training_arguments;
  std::optional<std::string> fsdp, fsdp_config;
  std::optional<std::int64_t> ranks_per_node;
  bool use_orig_params = false;

  /// Whether the rules of another runtime than the native one are asked for.
  bool other_than_native() const;
};

void declare_sharding_options(Command& command, ShardingOptions& options);

/// What the runtime of the options or of their file makes of the model. What had to be assumed is
/// added to `assumed`.
ShardingPlan plan_of(const Model& model, const ShardingOptions& options, const JobOptions& job,
                     const PlaceOptions& place, std::vector<std::string>& assumed);

}  // namespace shardscope
