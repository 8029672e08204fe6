// A case of fsdp1.json as the product's settings.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/pytorch/plans/fsdp1.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope::recordings {

/// The cross product of the settings that a case gives as lists, one object of single settings
/// each.
std::vector<nlohmann::ordered_json> fsdp1_variants(const nlohmann::ordered_json& given);

/// `model` is the case's model of models.json. Throws what the product throws.
Fsdp1Settings fsdp1_settings(const nlohmann::ordered_json& given,
                             const nlohmann::ordered_json& variant,
                             const nlohmann::ordered_json& model, const ModuleTree& tree);

/// "FULL_SHARD", "_HYBRID_SHARD_ZERO2" and back.
ShardingStrategy torch_strategy(const std::string& name);
std::string torch_name(ShardingStrategy strategy);

}  // namespace shardscope::recordings
