// Options of `shardscope model` about whose rules decide on units and shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/job_options.h"
#include "cli/place_options.h"
#include "core/base/refusal.h"
#include "core/config/config_file.h"
#include "core/config/config_plan.h"
#include "core/config/workers.h"
#include "core/model/model.h"
#include "core/pytorch/plans/runtime_request.h"
#include "core/pytorch/plans/sharding_plan.h"

namespace shardscope {

struct ShardingOptions {
  std::optional<std::string> runtime;
  std::optional<std::string> accelerate, deepspeed, training_arguments;
  std::optional<std::string> fsdp, fsdp_config;
  std::optional<std::string> accelerate_version;
  std::optional<std::int64_t> ranks_per_node;
  bool use_orig_params = false;
  std::optional<std::string> choice;           ///< of a job that a plan left: its place, whole
  std::optional<std::string> config;           ///< of simulate and plan alone: cli/recipe_option.h
  std::optional<ConfigFile> recipe;            ///< what that file tells the Trainer
  std::optional<Runtime> not_reentrant_under;  ///< as of a Recipe
  bool loads_on_host = false;                  ///< Recipe::loads_on_host
  std::vector<std::string> recipe_notes;       ///< defaults of its tool, and what is left out

  /// Whether the recipe says how the training is sharded, by itself or beside accelerate's file.
  bool recipe_shards() const { return recipe && !runtime && !deepspeed && !fsdp; }
  /// Whether a file of another program says how it shards.
  bool names_file() const;
  /// Whether the rules of another runtime than the native one are asked for.
  bool other_than_native() const;
};

/// Whether --mesh has an axis tensor, as "tensor=4,shard=2" has.
bool has_axis_tensor(std::string_view mesh);

void declare_sharding_options(Command& command, ShardingOptions& options);

/// Workers::casts_frozen_weights of the files. Throws Error for a version of accelerate that is not
/// known, and where nothing runs by accelerate.
bool casts_frozen_weights(const ShardingOptions& options, const PlaceOptions& place);

/// A configuration file (accelerate's where there are two), what the workers that it starts see,
/// and the model as they prepare it.
struct ConfiguredRun {
  ConfigFile file;
  Workers workers;
  ConfiguredModel model;
};
/// What a runtime is told: by options, or by a file.
using RuntimeChoice = std::variant<RuntimeRequest, ConfiguredRun>;

/// What had to be assumed is added to `assumed`. Throws Error naming the option or the file.
RuntimeChoice runtime_choice(const Model& model, const ShardingOptions& options,
                             const JobOptions& job, const PlaceOptions& place,
                             std::vector<std::string>& assumed);

/// What the runtime makes of the model.
ShardingPlan plan_of(const Model& model, const RuntimeChoice& choice);

/// What a real library raises, as an error about the file that made it do so.
Error refused(const ConfigFile& file, const Refusal& refusal);

}  // namespace shardscope
