#include "core/pytorch/plans/fsdp2.h"

#include <fmt/format.h>

#include "core/pytorch/plans/fsdp2_shard.h"
#include "core/pytorch/plans/fully_sharding.h"

namespace shardscope {

Fsdp2Mesh fsdp2_mesh(const std::vector<std::int64_t>& shape, int world) {
  if (shape.empty() || shape.size() > 2)
    throw Refusal("ValueError", {.where = "mesh",
                                 .what = fmt::format("has {} dimensions", shape.size()),
                                 .way_out = "give [shards] or [replicas, shards]"});
  std::int64_t ranks = 1;
  for (const std::int64_t size : shape)
    ranks = size < 1 || size > world ? std::int64_t{world} + 1 : ranks * size;
  if (ranks != world)
    throw Refusal(
        ranks > world ? "RuntimeError" : "IndexError",
        {.where = "mesh",
         .what = fmt::format("[{}] does not hold {} ranks", fmt::join(shape, ", "), world),
         .way_out = "let the product of its sizes be the world size"});
  return {.replicas = shape.size() == 2 ? static_cast<int>(shape[0]) : 1,
          .shards = static_cast<int>(shape.back())};
}

Fsdp2Plan fully_shard(const ModuleTree& tree, const std::vector<FullyShardCall>& calls,
                      Fsdp2Moment moment) {
  FullySharding sharding(tree);
  for (const FullyShardCall& call : calls) sharding.apply(call);
  return sharding.plan(moment);
}

std::int64_t padded_shard_elements(const ModuleTree& tree, const Fsdp2Group& group) {
  std::int64_t elements = 0;
  for (const Fsdp2Parameter& p : group.parameters)
    elements += padded_shard_elements(tree.parameters[static_cast<std::size_t>(p.parameter)].shape,
                                      p.shard_dim, group.mesh.shards);
  return elements;
}

}  // namespace shardscope
