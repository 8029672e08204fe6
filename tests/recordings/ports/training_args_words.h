// TrainingArguments on a command line, as HfArgumentParser reads them.
#pragma once

#include <span>
#include <string>

#include "core/config/values/config_value.h"

namespace shardscope {

/// The arguments among `words` ("--fsdp", "full_shard auto_wrap", "--bf16", "--learning-rate=1e-4")
/// as a dict for make_training_arguments. Raises SystemExit for a value that its field cannot be,
/// ValueError for words that no field takes. Source: transformers 5.23.0 hf_argparser.py.
ConfigValue training_arguments_of_words(std::span<const std::string> words);

}  // namespace shardscope
