#include "core/config/accelerate/parallelism.h"

#include <fmt/format.h>

#include "core/base/refusal.h"
#include "core/config/accelerate/python_rules.h"

namespace shardscope::accelerate {
namespace {

// Larger sizes are no cluster; their product would not fit 64 bits.
constexpr std::int64_t max_size = 1'000'000;

std::int64_t size_of(const Environment& environment, std::string_view name) {
  const std::int64_t size =
      integer_of(variable(environment, fmt::format("PARALLELISM_CONFIG_{}_SIZE", name), "1"), name);
  if (size > max_size)
    throw Error({.where = {},
                 .what = fmt::format("{} of {}", name, size),
                 .way_out = "give the size of a cluster"});
  return size;
}

void refuse_small(const ParallelismConfig& config) {
  const ConfigValue sizes = config.sizes();
  for (const ConfigValue::Entry& size : sizes.entries())
    if (size.value.integer() < 1)
      throw Refusal("ValueError", fmt::format("{}_size must be at least 1, got {}", size.key,
                                              size.value.integer()));
}

}  // namespace

std::int64_t ParallelismConfig::total() const {
  const double product = static_cast<double>(dp_replicate) * static_cast<double>(dp_shard) *
                         static_cast<double>(tp) * static_cast<double>(cp) *
                         static_cast<double>(sp);
  return product > 9e15 ? INT64_MAX : dp_replicate * dp_shard * tp * cp * sp;
}

ConfigValue ParallelismConfig::sizes() const {
  return ConfigValue::dict(
      {{"dp_replicate", dp_replicate}, {"dp_shard", dp_shard}, {"tp", tp}, {"cp", cp}, {"sp", sp}});
}

ConfigValue ParallelismConfig::fsdp_mesh() const {
  if (leaves_mesh_to_deepspeed() || total() == 1) return {};
  ConfigValue mesh = ConfigValue::dict();
  if (dp_replicate > 1) mesh.set("dp_replicate", dp_replicate);
  mesh.set("dp_shard_cp", dp_shard * cp);
  return mesh;
}

ParallelismConfig make_parallelism(const Environment& environment) {
  ParallelismConfig config{.dp_replicate = size_of(environment, "DP_REPLICATE"),
                           .dp_shard = size_of(environment, "DP_SHARD"),
                           .tp = size_of(environment, "TP"),
                           .cp = size_of(environment, "CP"),
                           .sp = size_of(environment, "SP")};
  const std::string cp_backend = variable(environment, "PARALLELISM_CONFIG_CP_BACKEND", "torch");
  config.sp_backend = variable(environment, "PARALLELISM_CONFIG_SP_BACKEND", "deepspeed");
  refuse_small(config);
  if (cp_backend != "torch")
    throw Refusal("ValueError", fmt::format("cp_backend must be torch, got {}", cp_backend));
  if (config.sp_backend != "deepspeed")
    throw Refusal("ValueError",
                  fmt::format("sp_backend must be deepspeed, got {}", config.sp_backend));
  if (config.cp > 1 && config.sp > 1)
    throw Refusal("ValueError", "context and sequence parallelism exclude each other");
  if ((config.tp > 1 || config.cp > 1) && config.dp_replicate > 1 && config.dp_shard == 1)
    throw Refusal("ValueError",
                  "tensor or context parallelism beside replication needs dp_shard_size above 1");
  return config;
}

void check_parallelism(ParallelismConfig& config, const ParallelismSetting& setting) {
  if (!config.leaves_mesh_to_deepspeed() && config.total() > setting.world)
    throw Refusal("RuntimeError", fmt::format("a mesh of {} ranks does not fit a world of {}",
                                              config.total(), setting.world));
  const bool multi_device = !setting.is_fsdp && !setting.is_deepspeed;
  if (!multi_device && config.total() == 1) return;
  if (config.total() == 1) config.dp_replicate = setting.world;
  if (!config.leaves_mesh_to_deepspeed() && config.total() != setting.world)
    throw Refusal("ValueError",
                  fmt::format("the sizes of parallelism_config multiply to {}, the run has {} "
                              "processes",
                              config.total(), setting.world));
  if (setting.is_fsdp2 && config.dp_shard <= 1 && config.cp <= 1)
    throw Refusal("ValueError", "FSDP has nothing to shard over: dp_shard_size and cp_size are 1");
  if (config.total() > 1 && !(setting.is_fsdp2 || multi_device || setting.is_deepspeed))
    throw Refusal("ValueError", "parallelism_config needs FSDP version 2, DDP or DeepSpeed");
}

}  // namespace shardscope::accelerate
