// The script for supervised fine-tuning that PEFT ships, which calls TRL's SFTTrainer. Source: PEFT
// 5d602fd, examples/sft/train.py and utils.py.
#pragma once

#include <string>
#include <string_view>

#include "core/config/recipe/recipe.h"

namespace shardscope::recipes {

/// Whether an argument of a command line, "--use_peft_lora", is the script's alone.
bool is_peft_example_argument(std::string_view word);
/// Whether the arguments are the script's.
bool is_of_peft_example(const ConfigValue& value);
Recipe read_peft_example(ConfigValue value, const std::string& file);

}  // namespace shardscope::recipes
