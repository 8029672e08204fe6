#include "cli/sharding_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "core/sharding/runtime_request.h"

namespace shardscope {
namespace {

constexpr std::int64_t largest_world = 1 << 20;
constexpr int usual_ranks_per_node = 8;

int size_of_option(std::int64_t value, std::string_view name) {
  if (value >= 1 && value <= largest_world) return static_cast<int>(value);
  throw Error({.where = std::string(name),
               .what = fmt::format("expected 1 to {}, got {}", largest_world, value)});
}

/// Where the plan is for: --world, else what the mesh multiplies to, else one rank.
struct Place {
  int world = 1;
  int ranks_per_node = 1;
  int rank = 0;
};

Place place_of(const ShardingOptions& options, const PlaceOptions& place,
               const std::optional<Mesh>& mesh, std::vector<std::string>& assumed) {
  Place result;
  if (place.world)
    result.world = size_of_option(*place.world, "--world");
  else if (mesh)
    result.world = mesh->world();
  else
    assumed.emplace_back("1 rank (--world)");
  result.ranks_per_node = options.ranks_per_node
                              ? size_of_option(*options.ranks_per_node, "--ranks-per-node")
                              : std::min(result.world, usual_ranks_per_node);
  const std::int64_t rank = place.rank.value_or(0);
  if (rank < 0 || rank >= result.world)
    throw Error({.where = "--rank",
                 .what = fmt::format("expected 0 to {}, got {}", result.world - 1, rank)});
  result.rank = static_cast<int>(rank);
  return result;
}

RuntimeRequest request_of(const ShardingOptions& options, const JobOptions& job,
                          const PlaceOptions& place, std::vector<std::string>& assumed) {
  RuntimeRequest request{.runtime = parse_runtime(options.runtime.value_or("native"), "--runtime"),
                         .use_original_parameters = options.use_orig_params};
  if (job.mesh) request.mesh = parse_mesh(*job.mesh, "--mesh");
  const Place where = place_of(options, place, request.mesh, assumed);
  request.world = where.world;
  request.ranks_per_node = where.ranks_per_node;
  request.rank = where.rank;
  const bool ddp = request.runtime == Runtime::ddp;
  if (job.strategy)
    request.sharding = parse_sharding_strategy(*job.strategy, "--strategy");
  else
    request.sharding = ddp ? ShardingStrategy::no_shard : ShardingStrategy::full_shard;
  if (!job.strategy && !ddp) assumed.emplace_back("strategy full_shard (--strategy)");
  if (job.wrap) request.units = parse_units(*job.wrap, "--wrap");
  if (job.precision)
    request.precision = parse_training_precision(*job.precision, "--precision");
  else
    assumed.emplace_back("precision fp32 (--precision)");
  if (job.optimizer) request.optimizer.kind = parse_optimizer(*job.optimizer, "--optimizer");
  if (!options.ranks_per_node && !request.mesh && request.world > 1 &&
      (request.sharding == ShardingStrategy::hybrid_shard ||
       request.sharding == ShardingStrategy::hybrid_shard_zero2))
    assumed.push_back(fmt::format("{} ranks per node (--ranks-per-node)", where.ranks_per_node));
  return request;
}

}  // namespace

bool ShardingOptions::other_than_native() const {
  return accelerate || deepspeed || training_arguments || fsdp || fsdp_config ||
         (runtime && *runtime != "native");
}

void declare_sharding_options(Command& command, ShardingOptions& options) {
  command.heading("Whose rules");
  command.option("--runtime", options.runtime,
                 {"NAME", "native, fsdp1, fsdp2, ddp, deepspeed; native unless given"});
  command.option("--ranks-per-node", options.ranks_per_node,
                 {"N", "over which a hybrid shards; up to 8 unless given"});
  command.flag("--use-orig-params", options.use_orig_params,
               "FSDP1 keeps the original parameters, aligned");
}

ShardingPlan plan_of(const Model& model, const ShardingOptions& options, const JobOptions& job,
                     const PlaceOptions& place, std::vector<std::string>& assumed) {
  return plan_of(model, request_of(options, job, place, assumed));
}

}  // namespace shardscope
