// What a configuration file makes of a model: units, buckets or partitions, and the bytes that a
// rank holds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/accelerate/fsdp_plugin.h"
#include "core/config/accelerate/prepared.h"
#include "core/config/deepspeed/settings.h"
#include "core/config/workers.h"
#include "core/model/model.h"
#include "core/pytorch/plans/fsdp1.h"
#include "core/pytorch/plans/fsdp2.h"
#include "core/pytorch/plans/sharding_plan.h"

namespace shardscope {

/// A model as the real tools see it when they prepare it: in the dtype that it was loaded in.
struct ConfiguredModel {
  accelerate::PreparedModel prepared;
  int rank = 0;
  Optimizer optimizer;
  /// bnb_4bit_quant_storage of a quantised base with adapters, where it is a float.
  std::optional<Dtype> quantized_storage = {};
};

/// The widths in the config.json of a model; unknown where the model is another file.
ModelWidths widths_of_model(const std::filesystem::path& folder_or_config);

/// `widths` fill in DeepSpeed's "auto".
ConfiguredModel configured(const Model& model, const ModelWidths& widths);

/// Throws Refusal where the real libraries refuse, Error (ExitCode::no) where they would hang or
/// fail at the first forward.
ShardingPlan plan_of(const ConfiguredModel& model, const Workers& workers,
                     const ReadFile& read_file);

/// The effective DeepSpeed configuration of the workers, "auto" filled in by the Trainer, or by
/// Accelerator.prepare with a micro-batch of 1.
ConfigValue effective_deepspeed(const ConfiguredModel& model, const Workers& workers,
                                const ReadFile& read_file);

/// The FSDP plugin of the workers, with mixed precision and the classes found in the model.
accelerate::FsdpPlugin fsdp_plugin(const ConfiguredModel& model, const Workers& workers);

/// What FullyShardedDataParallel is told. Throws Refusal.
Fsdp1Settings fsdp1_settings(const ConfiguredModel& model, const Workers& workers,
                             const accelerate::FsdpPlugin& plugin);
/// The mesh that fully_shard is given.
Fsdp2Mesh fsdp2_mesh(const Workers& workers);
/// What deepspeed.initialize is told, "auto" filled in. Throws Refusal.
DeepSpeedSettings deepspeed_settings(const ConfiguredModel& model, const Workers& workers,
                                     const ReadFile& read_file);

}  // namespace shardscope
