// models.json beside the recordings of sharding: the module trees that they were made of.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/dtype.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope::recordings {

/// The model of that name in models.json of `folder`: its spec, bases and modules.
nlohmann::ordered_json recorded_model(const std::filesystem::path& folder, const std::string& name);

/// config.json of a transformers model's spec.
nlohmann::ordered_json recorded_config(const nlohmann::ordered_json& spec);

/// Its tree, aliases as named_modules(remove_duplicate=False) lists them.
ModuleTree recorded_tree(const nlohmann::ordered_json& model);

/// "bf16", "fp32" as in cases, or a name that the product knows.
Dtype recorded_dtype(const std::string& name);

}  // namespace shardscope::recordings
