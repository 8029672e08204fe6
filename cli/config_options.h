// Options of the verbs that take a configuration file: whose it is, and where it would run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "core/config/config_file.h"
#include "core/config/workers.h"

namespace shardscope {

struct ConfigOptions {
  std::optional<std::string> path, format;
  std::optional<std::int64_t> world, ranks_per_node;

  /// Throws Error where no file was given or it cannot be read.
  ConfigFile read() const;
  /// Throws Error naming the option.
  ConfigPlace place() const;
};

void declare_config_options(Command& command, ConfigOptions& options);

}  // namespace shardscope
