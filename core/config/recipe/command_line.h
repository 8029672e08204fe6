// The command line of a fine-tuning tool in a shell script, as the dict that its YAML file would
// be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/config_value.h"

namespace shardscope::recipes {

/// The key that says which of TRL's commands it is: "sft", "dpo", "grpo".
inline constexpr std::string_view trl_command_key = "trl_command";

/// The options of the first command in the script that is `swift sft`, `swift pt`, `trl sft`,
/// `trl dpo`, `trl grpo` or `llamafactory-cli train`, or starts their script or PEFT's
/// examples/sft/train.py: "--lora_rank 8" is {"lora_rank": 8}. Several values make a list, none is
/// true. NPROC_PER_NODE before it is the key nproc_per_node. Of scripts of TRL and PEFT the
/// launcher's number of processes is num_processes, and its --config_file is accelerate_config.
/// None where there is no such command. Nothing is substituted: a value with $ stands as text.
ConfigValue command_line(std::string_view text, const std::string& file);

/// The same for each command that starts a Python script: the options after `train.py`, or after
/// the module of `-m`. Options of the launcher come before it and are left out.
std::vector<ConfigValue> script_command_lines(std::string_view text, const std::string& file);

}  // namespace shardscope::recipes
