// FSDP1: which units FullyShardedDataParallel makes of a module tree, their FlatParameters and
// shards. Source: torch 2.15 distributed/fsdp/{fully_sharded_data_parallel,_init_utils,_wrap_utils,
// wrap,_flat_param}.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/pytorch/plans/flat_parameter.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/pytorch/plans/wrapping.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// MixedPrecision: that there is one at all lets the policies wrap every BatchNorm.
struct MixedPrecision {
  std::optional<Dtype> parameters;  ///< param_dtype
  std::optional<Dtype> reduction;   ///< reduce_dtype; absent: `parameters`, else the model's
  bool operator==(const MixedPrecision&) const = default;
};

/// The arguments of FullyShardedDataParallel that decide on units and shards, at its defaults.
struct Fsdp1Settings {
  int world = 1;
  ShardingStrategy strategy = ShardingStrategy::full_shard;  ///< zero1 is none of FSDP's
  bool use_original_parameters = false;                      ///< use_orig_params
  std::optional<MixedPrecision> mixed_precision;
  /// device_mesh with the axes replicate and shard; the other strategies shard over its first axis.
  std::optional<Mesh> mesh;
  int ranks_per_node = 1;  ///< over which hybrid strategies without a mesh shard
  /// Modules wrapped one by one, in this order, before the root is.
  std::vector<std::string> wrapped_by_hand;
  AutoWrap auto_wrap;  ///< of the root's call
  std::vector<std::string> ignored_modules;
  std::vector<std::string> ignored_parameters;  ///< by any of their names
};

/// One FullyShardedDataParallel and its FlatParameter.
struct Fsdp1Unit {
  struct Parameter {
    std::string name;         ///< full, as the unit finds it; not the first name where it is tied
    std::int32_t source = 0;  ///< of its first name, index in ModuleTree::parameters
    bool operator==(const Parameter&) const = default;
  };
  struct Alias {
    std::string name;
    std::string first;  ///< under which it was flattened
    bool operator==(const Alias&) const = default;
  };
  std::string module;  ///< "" is the root
  std::string class_name;
  std::vector<Parameter> parameters;  ///< in flat order; none: there is no FlatParameter
  std::vector<Alias> aliases;

  ShardingStrategy strategy = ShardingStrategy::full_shard;  ///< no_shard where one rank shards
  Dtype compute_dtype = Dtype::float32;
  Dtype reduce_dtype = Dtype::float32;
  bool trainable = true;  ///< of the FlatParameter: any parameter is
  std::int64_t alignment_elements = 0;
  FlatParameter flat;
  int group_ranks = 1;   ///< of the process group it shards over
  int group_stride = 1;  ///< between neighbours in it

  /// Which shard `rank` holds.
  int shard_of(int rank) const { return rank / group_stride % flat.shards; }
  bool same_composition(const Fsdp1Unit& other) const;
};

/// What the library only warns of.
struct Fsdp1Warning {
  enum class Kind : std::uint8_t {
    no_shard_for_one_rank,  ///< subject: the strategy asked for
    batch_norm_in_full,     ///< subject: the classes that mixed precision leaves out
    mixed_trainable,        ///< subject: the module whose unit has frozen and other parameters
    whole_unit_ignored,     ///< subject: the module
  };
  Kind kind = Kind::no_shard_for_one_rank;
  std::string subject;
  bool operator==(const Fsdp1Warning&) const = default;
};

/// Units in the order of FSDP.fsdp_modules: the root first, then pre-order.
struct Fsdp1Plan {
  std::vector<Fsdp1Unit> units;
  std::vector<Fsdp1Warning> warnings;  ///< each once, in the order printed
  /// The size policy counted a parameter of which every rank holds another part, so that another
  /// rank's plan may differ.
  bool may_differ_between_ranks = false;
};

/// The plan that `rank` arrives at. Throws Refusal with the library's exception class where it
/// raises. Example, BERT base for sequence classification on 2 ranks, SizeWrap{10'000'000}: three
/// units with shards of 494,209, 11,720,448 and 42,527,232 elements.
Fsdp1Plan plan_fsdp1(const ModuleTree& tree, const Fsdp1Settings& settings, int rank = 0);

/// Two ranks of those given that arrive at different units, which hangs a real run; nullopt where
/// all agree.
std::optional<std::pair<int, int>> ranks_that_disagree(const ModuleTree& tree,
                                                       const Fsdp1Settings& settings,
                                                       std::span<const int> ranks);

/// A tied parameter whose names ended up in different units, of which the library says nothing.
struct SplitTie {
  std::string name;   ///< where it was flattened first
  std::string other;  ///< its name in another unit's modules
  /// true (use_orig_params=False): the other unit flattened it again, and the two copies drift
  /// apart. false: it is sharded by the first unit alone, and the other one's modules find it so.
  bool flattened_twice = true;
  bool operator==(const SplitTie&) const = default;
};
std::vector<SplitTie> split_ties(const ModuleTree& tree, const Fsdp1Plan& plan);

}  // namespace shardscope
