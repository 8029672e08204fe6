#include "core/config/config_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/config/accelerate/parallelism.h"
#include "core/config/accelerate/wrapped_modules.h"
#include "core/config/deepspeed/accelerate_prepare.h"
#include "core/config/deepspeed/deepspeed_config.h"
#include "core/config/deepspeed/settings.h"
#include "core/format/python_text.h"
#include "core/model/huggingface.h"
#include "core/pytorch/plans/runtime_plans.h"

namespace shardscope {
namespace {

using accelerate::FsdpPlugin;

/// Schedulers at "auto" want a number; states do not depend on it.
constexpr std::int64_t usual_training_steps = 1000;

std::string mixed_precision(const Workers& workers) {
  return variable(workers.environment, "ACCELERATE_MIXED_PRECISION", "no");
}

std::optional<Dtype> compute_dtype(std::string_view precision) {
  if (precision == "bf16" || precision == "fp8") return Dtype::bfloat16;
  if (precision == "fp16") return Dtype::float16;
  return std::nullopt;
}

std::string_view precision_named(Dtype dtype) {
  if (dtype == Dtype::bfloat16) return "bf16";
  return dtype == Dtype::float16 ? "fp16" : "fp32";
}

PlanQuestion question_of(const ConfiguredModel& model, const Workers& workers) {
  const std::string precision = mixed_precision(workers);
  return {.world = static_cast<int>(workers.world),
          .rank = model.rank,
          .precision = precision == "no" ? "no mixed precision" : precision + "_mixed",
          .optimizer = model.optimizer,
          .float32_parameters = workers.uses_fsdp() && precision != "no"};
}

std::vector<std::int32_t> ignored_modules(const FsdpPlugin& plugin, const ModuleTree& tree) {
  if (!plugin.ignored_modules) return {};
  return accelerate::matching_modules(tree, *plugin.ignored_modules, {});
}

/// "FULL_SHARD", "_HYBRID_SHARD_ZERO2".
ShardingStrategy strategy_named(std::string_view name) {
  if (name.starts_with("_")) name.remove_prefix(1);
  return parse_sharding_strategy(lower_of(name), "fsdp_sharding_strategy");
}

std::string wrap_text(const FsdpPlugin& plugin) {
  if (plugin.wrap == WrapPolicy::transformer && plugin.found_classes)
    return fmt::format("transformer ({})", fmt::join(*plugin.found_classes, ", "));
  if (plugin.wrap == WrapPolicy::size && plugin.min_num_params)
    return "size:" + plugin.min_num_params->str();
  return "none";
}

ShardingPlan fsdp2_plan(const ConfiguredModel& model, const Workers& workers,
                        const FsdpPlugin& plugin) {
  const ModuleTree& tree = model.prepared.tree;
  AccelerateFsdp2 settings = accelerate::fully_shard_settings(plugin);
  settings.mixed_precision = compute_dtype(plugin.mixed_precision.value_or("no"));
  settings.mesh = fsdp2_mesh(workers);
  for (const std::int32_t module : ignored_modules(plugin, tree))
    settings.ignored_parameters.merge(accelerate::parameters_below(tree, module));
  const AccelerateFsdp2Plan plan = accelerate_fsdp2(tree, model.prepared.facts, settings);
  const bool hybrid = settings.mesh.replicas > 1;
  const auto shown =
      settings.reshard_after_forward
          ? (hybrid ? ShardingStrategy::hybrid_shard : ShardingStrategy::full_shard)
          : (hybrid ? ShardingStrategy::hybrid_shard_zero2 : ShardingStrategy::shard_grad_op);
  return plan_of(plan.tree, plan.fsdp2,
                 {.sharding = shown, .mesh = settings.mesh, .wrap = wrap_text(plugin)},
                 question_of(model, workers));
}

/// The configuration with "auto" filled in, by the Trainer or by Accelerator.prepare.
ConfigValue filled_in(const ConfiguredModel& model, const Workers& workers,
                      const ReadFile& read_file) {
  if (workers.trainer && workers.trainer->deepspeed_config) {
    TrainerDeepSpeedConfig config = *workers.trainer->deepspeed_config;
    finalize_by_trainer(config, workers.trainer->with_defaults(), model.prepared.widths,
                        usual_training_steps);
    return config.hf.config();
  }
  if (workers.deepspeed) return *workers.deepspeed;
  return prepare_deepspeed(
             make_deepspeed_plugin(ConfigValue::dict(), workers.environment, read_file),
             workers.environment,
             {.world = workers.world, .loader_batch_sizes = {1}, .model = model.prepared.widths})
      .config;
}

std::string_view place_of(const DeepSpeedOffload& offload) {
  return offload.device == OffloadDevice::cpu ? "in the CPU's memory" : "on NVMe";
}

ZeroSettings zero_settings(const DeepSpeedSettings& settings, std::int64_t world) {
  return {.stage = settings.stage,
          .world = static_cast<int>(world),
          .precision = settings.precision == Dtype::float32 ? std::nullopt
                                                            : std::optional(settings.precision),
          .gradient_accumulation = settings.accumulation_dtype,
          .offload_optimizer = settings.offload_optimizer.device != OffloadDevice::none,
          .round_robin_gradients = settings.round_robin_gradients,
          .parameter_alignment = settings.parameter_alignment,
          .sub_group_size = settings.sub_group_elements,
          .parameter_persistence_threshold = settings.param_persistence_elements,
          .model_persistence_threshold = settings.model_persistence_elements};
}

/// What stage 3 alone looks at, and what it does to the bytes of a device.
void add_stage_3(const DeepSpeedSettings& settings, ShardingPlan& plan) {
  if (settings.stage != 3) return;
  if (settings.offload_param.device != OffloadDevice::none)
    plan.warnings.push_back({"offloaded-states", fmt::format("parameters are {}, not on the device",
                                                             place_of(settings.offload_param))});
  if (settings.hpz_partition_size <= 1) return;
  plan.strategy = name_of(ShardingStrategy::hybrid_shard);
  plan.warnings.push_back(
      {"second-partition",
       fmt::format("ZeRO++ keeps a second partition of the parameters over {} ranks from the "
                   "forward until the optimizer steps; it is not in these bytes",
                   settings.hpz_partition_size)});
}

ShardingPlan deepspeed_plan(const ConfiguredModel& model, const Workers& workers,
                            const ReadFile& read_file) {
  const DeepSpeedSettings settings = deepspeed_settings(model, workers, read_file);
  PlanQuestion question = question_of(model, workers);
  question.precision = settings.precision == Dtype::bfloat16  ? "bf16"
                       : settings.precision == Dtype::float16 ? "fp16"
                                                              : "fp32";
  ShardingPlan plan =
      plan_of(model.prepared.tree, zero_settings(settings, workers.world), question);
  add_stage_3(settings, plan);
  if (settings.masters_in_precision)
    plan.warnings.push_back(
        {"masters-in-precision",
         "master weights and optimizer states are counted in float32; the file "
         "keeps master weights in the precision of the parameters, which is less"});
  return plan;
}

/// Throws Error where the key divides a sequence or the model among ranks.
void refuse_division(std::string_view key) {
  if (key.empty()) return;
  const std::string_view axis = key.starts_with("sequence") ? "context"
                                : key.starts_with("tensor") ? "tensor"
                                                            : "expert";
  throw Error({.where = std::string(key),
               .what = "ranks that share a sequence or a model are not predicted under DeepSpeed",
               .way_out = fmt::format("set it to 1; --runtime megatron and torchtitan predict such "
                                      "ranks: --mesh {}=N",
                                      axis)});
}

/// PEFT reads the launcher's variable, whatever the policy is; the Trainer alone sets none.
std::vector<std::string> classes_for_peft(const ConfiguredModel& model, const Workers& workers) {
  const std::string given = variable(workers.environment, "FSDP_TRANSFORMER_CLS_TO_WRAP");
  if (given.empty() || !workers.launched) return model.prepared.facts.no_split_classes;
  return accelerate::split_at_commas(given);
}

}  // namespace

Fsdp1Settings fsdp1_settings(const ConfiguredModel& model, const Workers& workers,
                             const FsdpPlugin& plugin) {
  const ModuleTree& tree = model.prepared.tree;
  const std::string named = plugin.sharding_strategy.value_or(
      plugin.reshard_after_forward.is_string() ? plugin.reshard_after_forward.string()
                                               : "FULL_SHARD");
  Fsdp1Settings settings{.world = static_cast<int>(workers.world),
                         .strategy = strategy_named(named),
                         .use_original_parameters = plugin.use_orig_params.value_or(false),
                         .ranks_per_node = static_cast<int>(
                             std::max<std::int64_t>(1, workers.world / workers.machines)),
                         .auto_wrap = accelerate::auto_wrap_of(plugin)};
  if (const auto dtype = compute_dtype(plugin.mixed_precision.value_or("no")))
    settings.mixed_precision = MixedPrecision{.parameters = dtype, .reduction = dtype};
  for (const std::int32_t module : ignored_modules(plugin, tree))
    settings.ignored_modules.push_back(tree.modules[static_cast<std::size_t>(module)].name);
  return settings;
}

Fsdp2Mesh fsdp2_mesh(const Workers& workers) {
  const bool given = std::any_of(
      workers.environment.begin(), workers.environment.end(),
      [](const auto& setting) { return setting.first.starts_with("PARALLELISM_CONFIG_DP"); });
  const int world = static_cast<int>(workers.world);
  if (!given) return {.replicas = 1, .shards = world, .given = false};
  const accelerate::ParallelismConfig config = accelerate::make_parallelism(workers.environment);
  return {.replicas = static_cast<int>(config.dp_replicate),
          .shards = static_cast<int>(config.dp_shard * config.cp)};
}

DeepSpeedSettings deepspeed_settings(const ConfiguredModel& model, const Workers& workers,
                                     const ReadFile& read_file) {
  const DeepSpeedConfig config =
      effective_deepspeed_config(filled_in(model, workers, read_file), workers.world, read_file);
  refuse_division(config.dividing_key);
  return settings_of(config);
}

ModelWidths widths_of_model(const std::filesystem::path& folder_or_config) {
  const std::filesystem::path path = config_path(folder_or_config);
  std::error_code ignored;
  if (path.filename() != "config.json" || !std::filesystem::is_regular_file(path, ignored))
    return {.has_config = false};
  return widths_of_config(JsonValue::read_file(path, DuplicateKeys::last_wins));
}

ConfiguredModel configured(const Model& model, const ModelWidths& widths) {
  ConfiguredModel result{.prepared = {.tree = tree_of(model), .facts = {}, .widths = widths}};
  result.prepared.facts = transformers_facts(model, result.prepared.tree);
  return result;
}

accelerate::FsdpPlugin fsdp_plugin(const ConfiguredModel& model, const Workers& workers) {
  FsdpPlugin plugin = accelerate::make_fsdp_plugin(workers.environment);
  if (const std::string precision = mixed_precision(workers); precision != "no")
    accelerate::set_mixed_precision(plugin, precision);
  // transformers 5.24 distributed/fsdp.py, update_fsdp_plugin_peft: override=True.
  if (model.quantized_storage)
    accelerate::set_mixed_precision(plugin, precision_named(*model.quantized_storage));
  plugin.carves_ends = workers.accelerate >= 14;
  if (plugin.wrap == WrapPolicy::transformer && plugin.wrap_classes &&
      !names_classes(model.prepared.tree))
    throw Error(
        {.where = "--model",
         .what = "the file names no classes of modules, and units are to be wrapped by class",
         .way_out = "give the model's config.json, or what "
                    "examples/pytorch/export_model.py writes"});
  const ModuleTree& tree = model.prepared.tree;
  if (plugin.is_version(1) && is_adapted(tree))
    accelerate::set_peft_wrap_policy(plugin, tree, classes_for_peft(model, workers));
  else
    accelerate::set_auto_wrap_policy(plugin, tree, model.prepared.facts.no_split_classes);
  return plugin;
}

ConfigValue effective_deepspeed(const ConfiguredModel& model, const Workers& workers,
                                const ReadFile& read_file) {
  return effective_deepspeed_config(filled_in(model, workers, read_file), workers.world, read_file)
      .values;
}

ShardingPlan plan_of(const ConfiguredModel& model, const Workers& workers,
                     const ReadFile& read_file) {
  if (workers.uses_deepspeed()) return deepspeed_plan(model, workers, read_file);
  if (!workers.uses_fsdp())
    return plan_of(model.prepared.tree, DdpShown{.options = {.find_unused_parameters = true}},
                   question_of(model, workers));
  const FsdpPlugin plugin = fsdp_plugin(model, workers);
  ShardingPlan plan = plugin.is_version(1)
                          ? plan_of(model.prepared.tree, fsdp1_settings(model, workers, plugin),
                                    question_of(model, workers))
                          : fsdp2_plan(model, workers, plugin);
  if (plugin.offload_params)
    plan.warnings.push_back({"offloaded-states",
                             "parameters, gradients and optimizer states are in the CPU's memory, "
                             "not on the device"});
  return plan;
}

}  // namespace shardscope
