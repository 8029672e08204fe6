// TrainingArguments as a script is given them: a file of its own, or its command line.
#pragma once

#include <string>
#include <vector>

#include "core/config/config_file.h"
#include "core/config/values/config_value.h"

namespace shardscope {

struct ScriptArguments {
  ConfigValue arguments;         ///< a dict: those of TrainingArguments
  std::vector<std::string> own;  ///< other keys of YAML and of command lines: the script's own
};

/// HfArgumentParser's parse_yaml_file and parse_args_into_dataclasses, of a script that has
/// dataclasses of its own beside TrainingArguments; JSON, told by its
/// brace, has the arguments alone. Else the file's name says it: .yaml and .yml, .sh. Throws Error
/// with file and line.
ScriptArguments script_arguments(const ConfigFile& file);

}  // namespace shardscope
