// A runtime as the command line asks for it, without a configuration file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"
#include "core/pytorch/plans/runtime_plans.h"
#include "core/pytorch/plans/sharding_plan.h"

namespace shardscope {

/// Units as they are asked for: the modules of each stand together.
struct UnitChoice {
  enum class Kind : std::uint8_t { transformer, size, none, by_hand };
  Kind kind = Kind::transformer;
  std::int64_t min_elements = 0;                ///< size
  std::vector<std::vector<std::string>> units;  ///< by_hand: module names; the rest is the root's
  bool operator==(const UnitChoice&) const = default;
};

enum class TrainingPrecision : std::uint8_t { fp32, bf16, bf16_mixed, fp16_mixed };
std::string_view name_of(TrainingPrecision precision);
/// Throws Error naming `where` and the choices.
TrainingPrecision parse_training_precision(std::string_view text, std::string_view where);

/// The dtype that computing happens in under mixed precision; none without it.
std::optional<Dtype> compute_dtype(TrainingPrecision precision);
/// The dtype that parameters are kept in.
Dtype parameter_dtype(TrainingPrecision precision);

struct RuntimeRequest {
  Runtime runtime = Runtime::fsdp1;
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  std::optional<Mesh> mesh;  ///< absent: as strategy, world and ranks_per_node imply
  /// fsdp2: neighbouring ranks that divide each layer by transformers' tp_plan; the mesh is that of
  /// the others.
  int tensor = 1;
  /// Beside `tensor`: bf16_mixed is accelerate's autocast where FSDP2 shards, too.
  bool autocasts = false;
  UnitChoice units;
  TrainingPrecision precision = TrainingPrecision::fp32;
  bool use_original_parameters = false;  ///< fsdp1: use_orig_params
  int world = 1;
  int ranks_per_node = 1;
  int rank = 0;
  Optimizer optimizer;
};

/// What the runtime makes of a model at its own defaults: torch's for FSDP1, FSDP2 and DDP,
/// DeepSpeed's for its stages. `transformer` units are the model's no_split_classes. Throws Error
/// where the runtime has no such strategy or units, and what the library refuses.
ShardingPlan plan_of(const Model& model, const RuntimeRequest& request);

/// What the libraries' calls are given. Throw Error where the runtime has no such strategy or
/// units. Modules of the calls are those of tree_of(model).
Fsdp1Settings fsdp1_settings(const Model& model, const RuntimeRequest& request);
std::vector<FullyShardCall> fully_shard_calls(const Model& model, const RuntimeRequest& request);
int zero_stage(const RuntimeRequest& request);

/// `{"transformer.h.0", "transformer.h.3"}, ...` of a JSON file: a list of lists of module names.
/// Throws Error with file and line.
UnitChoice read_units(const std::string& path);
/// "transformer", "none", "size:N", "units:FILE".
UnitChoice parse_units(std::string_view text, std::string_view where);

}  // namespace shardscope
