// What the workers that a file starts are told, as a PortableStrategy.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/config/accelerate/fsdp_plugin.h"
#include "core/config/convert/convert.h"
#include "core/config/deepspeed/accelerate_plugin.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

using accelerate::FsdpPlugin;

/// Top-level keys that go into fields, or that every file has.
constexpr std::string_view understood[] = {
    "compute_environment", "distributed_type",   "fsdp_config",
    "deepspeed_config",    "parallelism_config", "mixed_precision",
    "num_machines",        "num_processes",      "machine_rank"};

/// Keys that the questionnaire writes into every file, with what they say where nobody cared:
/// nothing is lost without them.
const std::vector<std::pair<std::string_view, ConfigValue>>& idle_settings() {
  static const std::vector<std::pair<std::string_view, ConfigValue>> settings{
      {"debug", false},
      {"downcast_bf16", "no"},
      {"enable_cpu_affinity", false},
      {"main_training_function", "main"},
      {"rdzv_backend", "static"},
      {"same_network", true},
      {"tpu_env", ConfigValue::list()},
      {"tpu_use_cluster", false},
      {"tpu_use_sudo", false},
      {"use_cpu", false}};
  return settings;
}

bool is_idle(const ConfigValue::Entry& entry) {
  const auto& settings = idle_settings();
  return std::any_of(settings.begin(), settings.end(), [&](const auto& setting) {
    return setting.first == entry.key && setting.second == entry.value;
  });
}

void add_own_settings(const ConfigValue& file, PortableStrategy& strategy) {
  for (const ConfigValue::Entry& entry : file.entries()) {
    if (std::find(std::begin(understood), std::end(understood), entry.key) != std::end(understood))
      continue;
    strategy.own.push_back({.tool = ConfigTool::accelerate,
                            .key = entry.key,
                            .value = entry.value,
                            .why = is_idle(entry) ? "" : "belongs to accelerate's launcher"});
  }
}

/// "_HYBRID_SHARD_ZERO2" to hybrid_shard_zero2.
ShardingStrategy strategy_named(std::string_view name) {
  if (name.starts_with("_")) name.remove_prefix(1);
  return parse_sharding_strategy(lower_of(name), "fsdp_sharding_strategy");
}

struct MeshSizes {
  std::int64_t replicas = 1;
  std::int64_t shards = 1;
};

MeshSizes mesh_sizes(const Environment& environment) {
  const auto size = [&](std::string_view name) {
    const std::string text = variable(environment, name, "1");
    return text.empty() || text.size() > 9 ||
                   text.find_first_not_of("0123456789") != std::string::npos
               ? 1
               : std::stoll(text);
  };
  return {size("PARALLELISM_CONFIG_DP_REPLICATE_SIZE"), size("PARALLELISM_CONFIG_DP_SHARD_SIZE")};
}

/// Version 2 says with a bool whether to reshard, and with a mesh whether to replicate.
void set_version_2(const FsdpPlugin& plugin, const MeshSizes& mesh, PortableStrategy& strategy) {
  const bool reshards =
      !plugin.reshard_after_forward.is_boolean() || plugin.reshard_after_forward.boolean();
  const bool hybrid = mesh.replicas > 1 && mesh.shards > 1;
  if (hybrid) strategy.shard_group = mesh.shards;
  if (reshards)
    strategy.sharding = hybrid ? ShardingStrategy::hybrid_shard : ShardingStrategy::full_shard;
  else
    strategy.sharding =
        hybrid ? ShardingStrategy::hybrid_shard_zero2 : ShardingStrategy::shard_grad_op;
}

void set_version_1(const FsdpPlugin& plugin, PortableStrategy& strategy) {
  strategy.sharding = strategy_named(plugin.sharding_strategy.value_or("FULL_SHARD"));
  if (is_hybrid(strategy)) strategy.shard_group = strategy.world.value_or(1) / strategy.machines;
  strategy.backward_prefetch = BackwardPrefetch::none;
  if (plugin.backward_prefetch)
    strategy.backward_prefetch = *plugin.backward_prefetch == "BACKWARD_PRE"
                                     ? BackwardPrefetch::pre
                                     : BackwardPrefetch::post;
  strategy.forward_prefetch = plugin.forward_prefetch.value_or(false);
  strategy.use_original_parameters = plugin.use_orig_params.value_or(false);
  strategy.sync_module_states = plugin.sync_module_states.value_or(false);
}

PortableWrap wrap_of(const FsdpPlugin& plugin) {
  if (plugin.wrap == WrapPolicy::transformer)
    return {.policy = WrapPolicy::transformer,
            .classes = plugin.wrap_classes.value_or(std::vector<std::string>{})};
  if (plugin.wrap == WrapPolicy::size && plugin.min_num_params &&
      plugin.min_num_params->is_integer())
    return {.policy = WrapPolicy::size, .min_elements = plugin.min_num_params->integer()};
  return {};
}

StateDict state_dict_of(std::string_view name) {
  if (name == "FULL_STATE_DICT") return StateDict::full;
  return name == "LOCAL_STATE_DICT" ? StateDict::local : StateDict::sharded;
}

void set_fsdp(const Workers& workers, PortableStrategy& strategy) {
  const FsdpPlugin plugin = accelerate::make_fsdp_plugin(workers.environment);
  if (plugin.is_version(1))
    set_version_1(plugin, strategy);
  else
    set_version_2(plugin, mesh_sizes(workers.environment), strategy);
  strategy.wrap = wrap_of(plugin);
  if (plugin.offload_params)
    strategy.offload_parameters = strategy.offload_optimizer = OffloadDevice::cpu;
  strategy.activation_checkpointing = plugin.activation_checkpointing;
  strategy.ignored_modules = plugin.ignored_modules.value_or("");
  strategy.efficient_loading = plugin.cpu_ram_efficient_loading;
  strategy.state_dict = state_dict_of(plugin.state_dict_type);
}

void set_deepspeed(const Workers& workers, const ReadFile& read_file, PortableStrategy& strategy) {
  const auto config = [&] {
    if (workers.deepspeed) return *workers.deepspeed;
    return make_deepspeed_plugin(ConfigValue::dict(), workers.environment, read_file)
        .deepspeed_config();
  };
  PortableStrategy read = read_deepspeed_strategy(config());
  read.world = strategy.world;
  read.machines = strategy.machines;
  if (read.mixed_precision == "no") read.mixed_precision = strategy.mixed_precision;
  strategy = std::move(read);
}

}  // namespace

PortableStrategy read_strategy(const ConfigFile& file, const ConfigValue& value,
                               const ConfigPlace& place) {
  const Workers workers = workers_of(file, value, place);
  if (file.kind == ConfigKind::deepspeed) {
    // The file's own words: "auto" stays open.
    PortableStrategy strategy = read_deepspeed_strategy(value);
    strategy.world = place.world;
    strategy.machines = workers.machines;
    return strategy;
  }
  PortableStrategy strategy{
      .sharding = ShardingStrategy::no_shard,
      .world = workers.world,
      .machines = workers.machines,
      .mixed_precision = variable(workers.environment, "ACCELERATE_MIXED_PRECISION", "no"),
      .state_dict = StateDict::full};
  // Files of DeepSpeed and the Trainer do not say how many there are.
  if (file.kind != ConfigKind::accelerate && !place.world) strategy.world.reset();
  if (workers.uses_fsdp()) set_fsdp(workers, strategy);
  if (workers.uses_deepspeed()) set_deepspeed(workers, files_beside(file), strategy);
  if (file.kind == ConfigKind::accelerate) add_own_settings(value, strategy);
  return strategy;
}

}  // namespace shardscope
