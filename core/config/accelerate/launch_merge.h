// The defaults of the parser, a configuration file and a command line made one, as `accelerate
// launch` does before it chooses a launcher.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/refusal.h"
#include "core/config/accelerate/cluster_config.h"
#include "core/config/accelerate/launch_flags.h"
#include "core/config/values/environment.h"

namespace shardscope::accelerate {

/// What `accelerate launch` finds out about the machine that it runs on.
struct Machine {
  int gpus = 8;
  int physical_cores = 32;
  int free_port = 29501;      ///< what "main_process_port: 0" becomes
  bool has_nvidia_ml = true;  ///< nvidia-ml-py, which CPU affinity needs, is installed
  bool has_fp8 = false;       ///< Transformer Engine, MS-AMP or torchao is installed
};

/// A stage's value, or what the real library raises there.
template <class T>
struct Attempt {
  std::optional<T> value;
  std::optional<Refusal> error;

  explicit operator bool() const { return value.has_value(); }
};

/// Runs `action`; what it raises becomes the error.
template <class Action>
auto attempt(Action action) -> Attempt<decltype(action())> {
  try {
    return {.value = action(), .error = {}};
  } catch (const Refusal& refusal) {
    return {.value = {}, .error = refusal};
  }
}

struct MergedArguments {
  LaunchArguments arguments;
  bool precision_from_file = false;
  std::vector<std::string> warnings;  ///< values that had to be guessed
};

/// `config` is absent where no file was given. Raises what the real function raises.
/// Source: accelerate 1.15.0 commands/launch.py, _validate_launch_command.
MergedArguments merge_arguments(LaunchArguments arguments,
                                const std::optional<Attempt<LoadedConfig>>& config,
                                const Environment& shell, const Machine& machine);

}  // namespace shardscope::accelerate
