// FSDP2: the parameter groups that calls of fully_shard make.
// Source: torch 2.15, torch/distributed/fsdp/_fully_shard/ (_fully_shard.py, _fsdp_init.py,
// _fsdp_param_group.py, _fsdp_state.py).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/refusal.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope {

/// The ranks that a call shards over: `replicas` copies of `shards` shards; rank r holds shard
/// r % shards.
struct Fsdp2Mesh {
  int replicas = 1;
  int shards = 1;
  /// Whether the caller made the mesh and named its dimensions; otherwise each call makes its own
  /// over all ranks.
  bool given = true;
  bool operator==(const Fsdp2Mesh&) const = default;
};

/// A mesh of [shards] or [replicas, shards] ranks. Throws Refusal if its ranks are not `world`.
Fsdp2Mesh fsdp2_mesh(const std::vector<std::int64_t>& shape, int world);

/// torch's MixedPrecisionPolicy; absent: the parameter's own dtype.
struct Fsdp2MixedPrecision {
  std::optional<Dtype> parameters, reduction, output;
  bool cast_forward_inputs = true;
  bool operator==(const Fsdp2MixedPrecision&) const = default;
};

/// Absent: freed after forward except in the root. A number: kept after forward in pieces over so
/// many ranks; 1 means false, the number of shards means true.
using ReshardAfterForward = std::optional<std::variant<bool, std::int64_t>>;

/// One call of fully_shard.
struct FullyShardCall {
  std::vector<std::int32_t> modules;  ///< indices in ModuleTree::modules
  bool list = false;                  ///< called with a list, even of one module
  Fsdp2Mesh mesh;
  ReshardAfterForward reshard_after_forward;
  Fsdp2MixedPrecision precision;
  /// shard_placement_fn: parameter (its first index) to dimension, counted from the end if
  /// negative; dimension 0 where there is none.
  std::map<std::int32_t, int> shard_dims;
  std::set<std::int32_t> ignored_parameters;  ///< first indices
};

struct Fsdp2Parameter {
  std::int32_t parameter = 0;  ///< index in ModuleTree::parameters: the name it is kept under
  std::vector<std::int32_t> aliases;  ///< other names of it inside the group's modules
  int shard_dim = 0;
  bool operator==(const Fsdp2Parameter&) const = default;
};

/// Parameters that are gathered and reduced together.
struct Fsdp2Group {
  std::vector<std::int32_t> modules;  ///< those of the call, without such as lie inside another
  std::vector<Fsdp2Parameter> parameters;
  Fsdp2Mesh mesh;
  Fsdp2MixedPrecision precision;
  /// Shards that remain after forward: none, parameters stay whole; mesh.shards, they are freed.
  std::optional<int> post_forward_shards;
  bool operator==(const Fsdp2Group&) const = default;
};

struct Fsdp2Plan {
  std::vector<Fsdp2Group> groups;  ///< in the order of their first modules
  /// The groups stand, but the first forward is refused (a tied parameter in two groups, ...).
  std::optional<Refusal> refused_at_first_forward;
  std::vector<std::string> warnings;
};

/// Whether FSDP's lazy initialization has run: it finds the root and checks the groups.
enum class Fsdp2Moment : std::uint8_t { constructed, after_first_forward };

/// The groups that `calls` make one after the other. Throws Refusal where fully_shard raises.
/// Example: {.modules = {layer0}}, {.modules = {layer1}}, {.modules = {0}} on 4 ranks: the root's
/// group first, then one per layer.
Fsdp2Plan fully_shard(const ModuleTree& tree, const std::vector<FullyShardCall>& calls,
                      Fsdp2Moment moment = Fsdp2Moment::after_first_forward);

/// Elements of all parameters of a group that each rank stores, padding included.
std::int64_t padded_shard_elements(const ModuleTree& tree, const Fsdp2Group& group);

}  // namespace shardscope
