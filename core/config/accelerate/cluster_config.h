// What accelerate loads from a configuration file: the fields of its dataclass with their defaults.
#pragma once

#include <string>
#include <string_view>

#include "core/config/values/config_value.h"

namespace shardscope::accelerate {

/// A ClusterConfig, or a SageMakerConfig where compute_environment asks for one.
struct LoadedConfig {
  std::string class_name;
  ConfigValue fields = ConfigValue::dict();  ///< all, in the dataclass's order, None included

  bool is_cluster() const { return class_name == "ClusterConfig"; }
};

/// The file's value to the dataclass. Raises what accelerate raises: no mapping, unknown top-level
/// keys, no distributed_type, an unknown one.
/// Source: accelerate 1.15.0 commands/config/config_args.py, load_config_from_file, process_config.
LoadedConfig load_config(const ConfigValue& file);

/// Reads the text first, as JSON where the name ends in ".json", else as YAML.
ConfigValue read_config(std::string_view text, std::string_view file_name);

/// Names of a ClusterConfig's fields, for lint.
bool is_cluster_field(std::string_view key);

}  // namespace shardscope::accelerate
