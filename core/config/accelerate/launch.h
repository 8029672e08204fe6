// What `accelerate launch` would start: the launcher, its arguments, and the environment of the
// workers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/accelerate/launch_merge.h"

namespace shardscope::accelerate {

struct Launch {
  /// A dict of every attribute after the file was merged, with defaults; absent: it failed before.
  std::optional<ConfigValue> arguments;
  std::string launcher;                 ///< "multi_gpu_launcher"; empty: it failed before
  std::optional<ConfigValue> torchrun;  ///< what torch.distributed.run is given
  std::vector<std::string> command;  ///< of launchers that start one; "python" is the interpreter
  Environment environment;           ///< of the workers, the user's shell included
  Environment from_shell;            ///< those of them that the launcher does not set
  std::vector<std::string> warnings;
  std::optional<Refusal> error;

  bool uses(std::string_view flag) const { return arguments && arguments->get(flag).truthy(); }
};

struct LaunchRequest {
  std::vector<std::string> words;  ///< of the command line, with the script's name
  std::optional<Attempt<LoadedConfig>> config;
  Environment shell;
  Machine machine;
};

/// Never throws Refusal: what the real command raises is `error`, and the rest shows how far it
/// came. Source: accelerate 1.15.0 commands/launch.py, launch_command.
Launch launch(const LaunchRequest& request);

}  // namespace shardscope::accelerate
