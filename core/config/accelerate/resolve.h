// A configuration file of accelerate through every stage, up to what training is handed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/accelerate/launch.h"
#include "core/config/accelerate/prepared.h"
#include "core/config/deepspeed/accelerate_plugin.h"

namespace shardscope::accelerate {

struct ResolveRequest {
  std::string file_name;           ///< as the user wrote it; ".json" is read as JSON
  std::string text;                ///< of the file
  std::vector<std::string> words;  ///< further flags on `accelerate launch`'s command line
  Environment shell;
  Machine machine;
  /// What to prepare; null stops after the plugin.
  const PreparedModel* model = nullptr;
  std::vector<std::int64_t> loader_batch_sizes{4};
  ReadFile read_file;
};

/// What came of each stage. A stage behind one that failed is absent.
struct Resolution {
  std::string file_name;
  Attempt<ConfigValue> file;  ///< the file as Python sees it
  Attempt<LoadedConfig> loaded;
  Launch launch;
  std::optional<Attempt<FsdpPlugin>> plugin;  ///< with FSDP
  /// With DeepSpeed; absent too where its file cannot be looked at (no read_file).
  std::optional<Attempt<DeepSpeedPlugin>> deepspeed_plugin;
  std::optional<Attempt<Prepared>> prepared;  ///< with a model and torchrun

  /// num_processes of the run; none where it is no positive integer.
  std::optional<std::int64_t> world() const;
};

/// `accelerate launch --config_file FILE WORDS train.py`. Example: the text
/// "distributed_type: FSDP\nnum_processes: 4\n" resolves to plugin->value->sharding_strategy
/// "FULL_SHARD". Throws Error only for what exceeds the readers' bounds.
Resolution resolve(const ResolveRequest& request);

}  // namespace shardscope::accelerate
