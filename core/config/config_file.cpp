#include "core/config/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "core/base/error.h"
#include "core/config/deepspeed/hjson.h"
#include "core/config/megatron/arguments.h"
#include "core/config/python/python_functions.h"
#include "core/config/recipe/recipe.h"
#include "core/config/values/config_value.h"
#include "core/config/yaml/yaml_reader.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

constexpr std::int64_t largest_config_bytes = 8 << 20;

struct KnownKind {
  ConfigKind kind;
  std::string_view name;
  /// Top-level keys that tell the file from the others'.
  std::vector<std::string_view> keys;
};

const std::vector<KnownKind>& kinds() {
  static const std::vector<KnownKind> known{
      {ConfigKind::accelerate,
       "accelerate",
       {"compute_environment",
        "distributed_type",
        "fsdp_config",
        "deepspeed_config",
        "parallelism_config",
        "megatron_lm_config",
        "mixed_precision",
        "num_processes",
        "num_machines",
        "machine_rank",
        "main_process_ip",
        "main_process_port",
        "main_training_function",
        "rdzv_backend",
        "same_network",
        "downcast_bf16",
        "dynamo_config",
        "gpu_ids",
        "tpu_env",
        "tpu_use_cluster",
        "tpu_use_sudo",
        "use_cpu",
        "debug"}},
      {ConfigKind::deepspeed,
       "deepspeed",
       {"zero_optimization",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "gradient_clipping",
        "bf16",
        "bfloat16",
        "fp16",
        "amp",
        "optimizer",
        "scheduler",
        "steps_per_print",
        "wall_clock_breakdown",
        "dump_state",
        "zero_allow_untested_optimizer",
        "communication_data_type",
        "prescale_gradients",
        "gradient_predivide_factor",
        "activation_checkpointing",
        "data_types",
        "flops_profiler",
        "tensorboard",
        "wandb",
        "comms_logger",
        "aio",
        "checkpoint"}},
      {ConfigKind::training_arguments,
       "training-arguments",
       {"output_dir",
        "fsdp",
        "fsdp_config",
        "fsdp_min_num_params",
        "fsdp_transformer_layer_cls_to_wrap",
        "deepspeed",
        "per_device_train_batch_size",
        "per_device_eval_batch_size",
        "gradient_accumulation_steps",
        "learning_rate",
        "num_train_epochs",
        "max_steps",
        "warmup_steps",
        "logging_steps",
        "save_strategy",
        "eval_strategy",
        "gradient_checkpointing",
        "max_grad_norm",
        "weight_decay",
        "bf16",
        "fp16",
        "seed",
        "report_to",
        "lr_scheduler_type"}},
      {ConfigKind::fsdp_config,
       "fsdp-config",
       {"version",
        "fsdp_version",
        "reshard_after_forward",
        "fsdp_reshard_after_forward",
        "transformer_layer_cls_to_wrap",
        "fsdp_transformer_layer_cls_to_wrap",
        "min_num_params",
        "fsdp_min_num_params",
        "auto_wrap_policy",
        "fsdp_auto_wrap_policy",
        "backward_prefetch",
        "fsdp_backward_prefetch",
        "forward_prefetch",
        "fsdp_forward_prefetch",
        "use_orig_params",
        "fsdp_use_orig_params",
        "sync_module_states",
        "fsdp_sync_module_states",
        "cpu_ram_efficient_loading",
        "fsdp_cpu_ram_efficient_loading",
        "state_dict_type",
        "fsdp_state_dict_type",
        "limit_all_gathers",
        "activation_checkpointing",
        "cpu_offload",
        "offload_params",
        "fsdp_offload_params",
        "sharding_strategy",
        "fsdp_sharding_strategy",
        "xla",
        "xla_fsdp_settings",
        "xla_fsdp_grad_ckpt",
        "xla_fsdp_v2"}},
      // recipe_tool tells these apart.
      {ConfigKind::trl, "trl", {}},
      {ConfigKind::axolotl, "axolotl", {}},
      {ConfigKind::llama_factory, "llama-factory", {}},
      {ConfigKind::torchtune, "torchtune", {}},
      {ConfigKind::litgpt, "litgpt", {}},
      {ConfigKind::ms_swift, "ms-swift", {}},
      {ConfigKind::torchtitan, "torchtitan", {}},
      // Its flags tell it: megatron::is_megatron.
      {ConfigKind::megatron, "megatron", {}},
  };
  return known;
}

bool is_yaml(const std::filesystem::path& path, std::string_view text) {
  const std::string extension = path.extension().string();
  if (extension == ".yaml" || extension == ".yml") return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return extension != ".json" && (first == std::string_view::npos || text[first] != '{');
}

std::size_t known_keys(const ConfigValue& config, const KnownKind& kind) {
  return static_cast<std::size_t>(std::count_if(
      kind.keys.begin(), kind.keys.end(), [&](std::string_view key) { return config.has(key); }));
}

ConfigKind kind_of(RecipeTool tool) {
  switch (tool) {
    case RecipeTool::trl:
      return ConfigKind::trl;
    case RecipeTool::axolotl:
      return ConfigKind::axolotl;
    case RecipeTool::llama_factory:
      return ConfigKind::llama_factory;
    case RecipeTool::torchtune:
      return ConfigKind::torchtune;
    case RecipeTool::litgpt:
      return ConfigKind::litgpt;
    case RecipeTool::ms_swift:
      return ConfigKind::ms_swift;
    case RecipeTool::torchtitan:
      return ConfigKind::torchtitan;
  }
  return ConfigKind::trl;
}

ConfigKind kind_of(const std::filesystem::path& path, std::string_view text) {
  if (python_name(path.string()).file.ends_with(".py")) return ConfigKind::torchtitan;
  if (path.extension() != ".json" && megatron::is_megatron(text)) return ConfigKind::megatron;
  if (path.extension() == ".sh")
    return kind_of(recipe_tool(recipe_value(text, path.string())).value_or(RecipeTool::ms_swift));
  if (path.extension() == ".toml") return ConfigKind::torchtitan;
  const bool yaml = is_yaml(path, text);
  // Hjson is JSON with more forms, so that a file of any tool can be looked into; the tool's own
  // reader decides later what is broken.
  const ConfigValue config = yaml ? read_yaml(text, path.string())
                                  : read_hjson(text, path.string(), DuplicateKeys::last_wins);
  if (const auto tool = recipe_tool(config)) return kind_of(*tool);
  const KnownKind* best = nullptr;
  for (const KnownKind& kind : kinds())
    if (known_keys(config, kind) > (best ? known_keys(config, *best) : 0)) best = &kind;
  if (best) return best->kind;
  if (yaml) return ConfigKind::accelerate;  // whose complaint about the keys is the best there is
  throw Error({.where = path.string(),
               .what = "has no key of accelerate, DeepSpeed or TrainingArguments",
               .way_out = "give such a file, or say with --format whose it is"});
}

}  // namespace

std::string_view name_of(ConfigKind kind) {
  for (const KnownKind& known : kinds())
    if (known.kind == kind) return known.name;
  return "?";
}

ConfigKind parse_config_kind(std::string_view text, std::string_view where) {
  for (const KnownKind& known : kinds())
    if (known.name == text) return known.kind;
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is none of accelerate, deepspeed, training-arguments, "
                                   "fsdp-config, trl, axolotl, llama-factory, torchtune, litgpt, "
                                   "ms-swift, torchtitan, megatron",
                                   text)});
}

ConfigFile read_config_file(const std::filesystem::path& path, std::optional<ConfigKind> kind) {
  ConfigFile file{.path = path,
                  .text = read_whole(python_name(path.string()).file, largest_config_bytes)};
  file.kind = kind ? *kind : kind_of(path, file.text);
  return file;
}

}  // namespace shardscope
