// `accelerate config`: the questions, their defaults, and the configuration that comes of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/config/values/config_value.h"

namespace shardscope::accelerate {

/// The answer to a question; none takes the default.
using Answer = std::function<std::optional<std::string>(const std::string& question)>;

struct AskedQuestion {
  std::string question;  ///< without the blanks at its ends
  std::string answer;    ///< as typed, "" for the default; of a menu the chosen option
};

struct Interview {
  ConfigValue config;  ///< what the file holds: yaml_text writes it
  std::vector<AskedQuestion> asked;
};

/// Asks as accelerate does on a machine of NVIDIA GPUs. Raises what it raises (a menu without the
/// option: ValueError). TPUs and fp8 are beyond Shardscope: Error. Source: accelerate 1.15.0
/// commands/config/cluster.py, get_cluster_input.
Interview interview(const Answer& answer);

}  // namespace shardscope::accelerate
