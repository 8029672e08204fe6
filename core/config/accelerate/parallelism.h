// accelerate's ParallelismConfig: the sizes of the mesh.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope::accelerate {

struct ParallelismConfig {
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t sp = 1;
  std::string sp_backend = "deepspeed";

  std::int64_t total() const;
  /// DeepSpeed makes its own groups then, and no mesh is built.
  bool leaves_mesh_to_deepspeed() const { return sp_backend == "deepspeed" && sp > 1; }
  /// {"dp_replicate", "dp_shard", "tp", "cp", "sp"}.
  ConfigValue sizes() const;
  /// The mesh that fully_shard is given: {"dp_replicate", "dp_shard_cp"}; None where there is none.
  ConfigValue fsdp_mesh() const;
};

/// ParallelismConfig() from PARALLELISM_CONFIG_*. Raises ValueError for sizes below 1 and for
/// combinations that it refuses. Source: accelerate 1.15.0 parallelism_config.py, __post_init__.
ParallelismConfig make_parallelism(const Environment& environment);

/// What stands around the sizes when Accelerator checks them.
struct ParallelismSetting {
  std::int64_t world = 1;
  bool is_fsdp = false;  ///< of any version
  bool is_fsdp2 = false;
  bool is_deepspeed = false;
};

/// get_device_mesh and _validate_accelerator: a mesh of more ranks than there are raises
/// RuntimeError, a product other than the world ValueError. A product of 1 becomes replication over
/// the world, but only after the mesh was made.
void check_parallelism(ParallelismConfig& config, const ParallelismSetting& setting);

}  // namespace shardscope::accelerate
