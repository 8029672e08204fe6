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

/// As HfArgumentParser's parse_yaml_file and parse_args_into_dataclasses read them. YAML and
/// command lines may also have keys of the script's own dataclasses. JSON has the arguments alone.
/// A text that starts with a brace is JSON. Otherwise the file's extension decides: .yaml, .yml or
/// .sh. Throws Error with file and line.
ScriptArguments script_arguments(const ConfigFile& file);

}  // namespace shardscope
