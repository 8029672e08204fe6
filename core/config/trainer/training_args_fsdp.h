// TrainingArguments._process_fsdp_args: from fsdp and fsdp_config to arguments of accelerate's
// plugin.
#pragma once

#include <string>
#include <vector>

#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope {

struct FsdpArguments {
  ConfigValue fsdp;         ///< true where FSDP is on, else as given
  ConfigValue config;       ///< fsdp_config with its defaults
  ConfigValue plugin_args;  ///< None where FSDP is off or XLA's
  /// FSDP_CPU_RAM_EFFICIENT_LOADING, which it sets; empty: it does not.
  std::string cpu_ram_efficient_loading;
  std::vector<std::string> warnings;
};

/// `fsdp` is true, text ("full_shard auto_wrap offload"), a list of such words, or falsy;
/// `fsdp_config` a dict, the path of a JSON file, or None. Version 2 is the default; strings and
/// lists are the old form. Raises what transformers raises. Source: transformers 5.23.0
/// training_args.py _process_fsdp_args, _apply_legacy_fsdp_to_config.
FsdpArguments process_fsdp_arguments(const ConfigValue& fsdp, const ConfigValue& fsdp_config,
                                     bool activation_checkpointing, const ReadFile& read_file);

}  // namespace shardscope
