// What the worker processes of a training see when a configuration file starts them: the common
// ground of plans, lint and conversions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config_file.h"
#include "core/config/trainer/training_args.h"
#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope {

/// The release of accelerate whose rules are all known, and the oldest whose FSDP2 is: 1.N.
inline constexpr int newest_accelerate = 15, oldest_accelerate = 9;

/// Where it runs, as far as it is said besides the file; the command line of a launcher would say
/// it.
struct ConfigPlace {
  std::optional<std::int64_t> world;
  std::optional<std::int64_t> ranks_per_node;
  /// "bf16" or "fp16" where TrainingArguments ask for it: what DeepSpeed's "auto" becomes.
  std::string trainer_precision;
  int accelerate = newest_accelerate;  ///< N of accelerate 1.N
};

struct Workers {
  /// With FSDP_*, ACCELERATE_* and PARALLELISM_CONFIG_* as the launcher or the Trainer leave them.
  Environment environment;
  /// A DeepSpeed configuration of its own; none: the environment says it all.
  std::optional<ConfigValue> deepspeed;
  /// The Trainer's, which fills in "auto" when the model is known.
  std::optional<TrainingArguments> trainer;
  std::int64_t world = 1;
  std::int64_t machines = 1;
  int accelerate = newest_accelerate;  ///< N of accelerate 1.N
  bool launched = false;               ///< by `accelerate launch`, whose variables the script sees
  std::vector<std::string> assumed;    ///< what nobody said
  std::vector<std::string> warnings;   ///< what the real tools print meanwhile

  bool uses_fsdp() const { return variable(environment, "ACCELERATE_USE_FSDP") == "true"; }
  /// Before accelerate 1.13 all weights become float32 under FSDP2 with mixed precision, from then
  /// on what trains does. Source: fsdp2_prepare_model of utils/fsdp_utils.py.
  bool casts_frozen_weights() const;
  bool uses_deepspeed() const {
    return variable(environment, "ACCELERATE_USE_DEEPSPEED") == "true";
  }
};

/// The file's value as its tool reads it. Throws Error with file and line, or what the tool raises.
ConfigValue value_of(const ConfigFile& file);
/// `value` is value_of(file). Throws Error where the real tool would raise.
Workers workers_of(const ConfigFile& file, const ConfigValue& value, const ConfigPlace& place);
/// `accelerate launch` with `file`, of a script whose Trainer gets the arguments of
/// `arguments_file`: its own, or those of a tool around it.
Workers workers_of_script(const ConfigFile& file, const ConfigFile& arguments_file,
                          const ConfigPlace& place);

/// Files that a configuration names: relative to the working directory, then to the file's folder.
ReadFile files_beside(const ConfigFile& file);

}  // namespace shardscope
