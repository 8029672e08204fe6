// The module objects of a model while calls of fully_shard change them.
// Source: torch 2.15, torch/distributed/fsdp/_fully_shard/_fully_shard.py and _fsdp_init.py.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/pytorch/plans/fsdp2.h"
#include "core/pytorch/plans/fsdp2_first_forward.h"

namespace shardscope {

/// Carries out calls of fully_shard one after the other. `tree` must outlive it.
class FullySharding {
 public:
  explicit FullySharding(const ModuleTree& tree);

  /// Throws Refusal where fully_shard raises.
  void apply(const FullyShardCall& call);
  /// The groups so far.
  Fsdp2Plan plan(Fsdp2Moment moment) const;

 private:
  const TreeModule& module(std::int32_t id) const;
  const TreeParameter& parameter(std::int32_t id) const;
  /// What stands under the parameter's name now: its first index until a call replaces it by a
  /// shard, then a number of its own.
  std::int32_t object_of(std::int32_t parameter) const;
  std::int32_t object_of_module(std::int32_t id) const { return module(id).same_as.value_or(id); }
  std::int32_t state_of(std::int32_t id) const;
  bool is_sharded(std::int32_t object) const;
  bool is_inside(std::int32_t id, std::int32_t ancestor) const;

  std::vector<std::int32_t> roots_of(const FullyShardCall& call) const;
  void mark(const std::vector<std::int32_t>& roots);
  void refuse_container(std::int32_t id) const;
  std::vector<std::int32_t> managed_modules(const std::vector<std::int32_t>& roots) const;
  std::vector<std::int32_t> managed_parameters(const std::vector<std::int32_t>& roots,
                                               const FullyShardCall& call) const;
  std::map<std::int32_t, std::vector<std::int32_t>> slots_of(
      const std::vector<std::int32_t>& objects, const std::vector<std::int32_t>& roots) const;
  std::vector<Fsdp2Parameter> shard(const std::vector<std::int32_t>& objects,
                                    const std::vector<std::int32_t>& roots,
                                    const FullyShardCall& call);
  void shard_again(std::int32_t slot, const Fsdp2Mesh& mesh);
  int shard_dim_of(std::int32_t object, std::int32_t slot, const FullyShardCall& call) const;

  const ModuleTree& tree_;
  Fsdp2States states_;
  std::vector<std::int32_t> object_;  // by parameter name: the object that stands there now
  std::int32_t shards_made_ = 0;
  Fsdp2Plan plan_;
};

}  // namespace shardscope
