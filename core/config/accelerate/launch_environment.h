// The environment of the workers, by launcher.
#pragma once

#include <string>
#include <vector>

#include "core/config/accelerate/launch_flags.h"
#include "core/config/accelerate/launch_merge.h"

namespace shardscope::accelerate {

/// Adds what the simple launcher sets. Source: accelerate 1.15.0 utils/launch.py,
/// prepare_simple_launcher_cmd_env.
void set_simple_environment(Environment& environment, const LaunchArguments& arguments,
                            const Machine& machine);
/// Source: utils/launch.py, prepare_multi_gpu_env.
void set_multi_gpu_environment(Environment& environment, const LaunchArguments& arguments,
                               const Machine& machine);
/// `from_file` names the fields of the file's deepspeed_config. Source: utils/launch.py,
/// prepare_deepspeed_cmd_env.
void set_deepspeed_environment(Environment& environment, const LaunchArguments& arguments,
                               const Machine& machine, const std::string& from_file);

}  // namespace shardscope::accelerate
