#include <fmt/format.h>

#include <algorithm>

#include "core/base/refusal.h"
#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"
#include "core/config/values/python_arithmetic.h"

namespace shardscope::recipes {
namespace {

constexpr std::int64_t default_length = 512;  // sequence_len

constexpr LeftOut left_out[] = {
    {"fp8", "FP8 is not modelled"},
    {"activation_offloading", "activations in host memory need less device memory"},
    {"layer_offloading", "layers in host memory need less device memory"},
    {"selective_checkpointing", "every block is taken to be computed again as a whole"},
    {"unfrozen_parameters", "the whole model is taken to train"},
    {"tiled_mlp", "tiled layers need less memory than is predicted"},
    {"chunked_cross_entropy", "a loss in chunks needs less memory than is predicted"},
    {"liger_layer_norm", "Liger's kernels need less memory than is predicted"},
    {"liger_cross_entropy", "Liger's kernels need less memory than is predicted"},
    {"flash_attn_cross_entropy", "its loss is not modelled: PyTorch's is taken"},
    {"flash_attn_fuse_mlp", "fused layers are not modelled"},
    {"lora_alpha_pattern", "it changes no memory"},
    {"lora_on_cpu", "adapters on the host need less device memory"},
    {"lora_model_dir", "an adapter of earlier is taken as a new one"},
    {"peft_layer_replication", "replicated layers are left out"},
    {"peft_trainable_token_indices", "trained tokens are left out"},
    {"peft_autocast_adapter_dtype", "adapters are taken as PEFT's default has them"},
    {"peft_layers_to_transform", "every layer is taken to have adapters"},
    {"loftq", "LoftQ is not modelled"},
    {"peft", "LoftQ is not modelled"},
    {"gptq", "GPTQ is not modelled"},
    {"relora", "ReLoRA is not modelled"},
    {"lisa_n_layers", "LISA is not modelled"},
    {"qat", "quantisation-aware training is not modelled"},
    {"context_parallel_size", "context parallelism is not modelled here"},
    {"sequence_parallel_degree", "sequence parallelism is not modelled here"},
    {"tensor_parallel_size", "tensor parallelism is not modelled here"},
    {"dp_shard_size", "the mesh is taken from fsdp_config"},
    {"dp_replicate_size", "the mesh is taken from fsdp_config"},
    {"deepcompile", "DeepCompile is not modelled"},
    {"noisy_embedding_alpha", "NEFTune's noise is left out"},
    {"neftune_noise_alpha", "NEFTune's noise is left out"},
    {"bnb_config_kwargs", "what it tells bitsandbytes is not read"},
    {"fp32_norms", "norms in float32 are left out"},
    {"quantize_moe_experts", "quantised experts are not modelled"},
    {"use_kernels", "kernels of the Hub are left out"},
    {"fused_attn_kernel", "fused attention is left out"},
    {"liger_rms_norm_gated", "Liger's kernels need less memory than is predicted"},
    {"expert_parallel_size", "expert parallelism is not modelled here"},
    {"use_sonicmoe", "its kernels for experts are left out"},
    {"use_scattermoe", "its kernels for experts are left out"},
    {"freeze_mm_modules", "the vision part of a model is left out"},
    {"llmcompressor", "sparse training is not modelled"},
    {"use_eaft", "its loss is not modelled: the logits are taken whole"}};

constexpr std::string_view no_bearing[] = {"base_model_config",
                                           "cls_model_config",
                                           "model_type",
                                           "type_of_model",
                                           "tokenizer_type",
                                           "tokenizer_config",
                                           "tokenizer_use_fast",
                                           "tokenizer_legacy",
                                           "tokenizer_use_mistral_common",
                                           "processor_type",
                                           "trust_remote_code",
                                           "model_revision",
                                           "revision_of_model",
                                           "is_falcon_derived_model",
                                           "is_llama_derived_model",
                                           "is_mistral_derived_model",
                                           "is_qwen_derived_model",
                                           "datasets",
                                           "test_datasets",
                                           "pretraining_dataset",
                                           "dataset_prepared_path",
                                           "dataset_processes",
                                           "dataset_num_proc",
                                           "dataset_keep_in_memory",
                                           "dataset_exact_deduplication",
                                           "shuffle_merged_datasets",
                                           "shuffle_before_merging_datasets",
                                           "skip_prepare_dataset",
                                           "streaming",
                                           "val_set_size",
                                           "output_dir",
                                           "hub_model_id",
                                           "hub_strategy",
                                           "hub_revision",
                                           "push_dataset_to_hub",
                                           "hf_use_auth_token",
                                           "save_safetensors",
                                           "sample_packing",
                                           "eval_sample_packing",
                                           "sample_packing_group_size",
                                           "sample_packing_bin_size",
                                           "sample_packing_sequentially",
                                           "pretrain_multipack_attn",
                                           "pretrain_multipack_buffer_size",
                                           "pretraining_sample_concatenation",
                                           "curriculum_sampling",
                                           "batch_flattening",
                                           "excess_length_strategy",
                                           "min_sample_len",
                                           "max_prompt_len",
                                           "group_by_length",
                                           "train_on_inputs",
                                           "chat_template",
                                           "chat_template_jinja",
                                           "default_system_message",
                                           "special_tokens",
                                           "tokens",
                                           "added_tokens_overrides",
                                           "eot_tokens",
                                           "wandb_project",
                                           "wandb_entity",
                                           "wandb_watch",
                                           "wandb_name",
                                           "wandb_run_id",
                                           "wandb_log_model",
                                           "wandb_mode",
                                           "use_wandb",
                                           "use_mlflow",
                                           "mlflow_tracking_uri",
                                           "mlflow_experiment_name",
                                           "mlflow_run_name",
                                           "hf_mlflow_log_artifacts",
                                           "use_comet",
                                           "comet_project_name",
                                           "num_epochs",
                                           "max_steps",
                                           "lr_scheduler",
                                           "lr_scheduler_kwargs",
                                           "lr_quadratic_warmup",
                                           "cosine_min_lr_ratio",
                                           "cosine_constant_lr_ratio",
                                           "lr_div_factor",
                                           "lr_groups",
                                           "loraplus_lr_ratio",
                                           "loraplus_lr_embedding",
                                           "embedding_lr",
                                           "embedding_lr_scale",
                                           "adam_epsilon2",
                                           "adam_beta3",
                                           "warmup_ratio",
                                           "eval_steps",
                                           "evals_per_epoch",
                                           "saves_per_epoch",
                                           "save_first_step",
                                           "eval_table_size",
                                           "eval_max_new_tokens",
                                           "eval_causal_lm_metrics",
                                           "do_causal_lm_eval",
                                           "eval_sequence_len",
                                           "do_bench_eval",
                                           "early_stopping_patience",
                                           "auto_resume_from_checkpoints",
                                           "device",
                                           "device_map",
                                           "world_size",
                                           "ddp",
                                           "ddp_timeout",
                                           "xformers_attention",
                                           "sdp_attention",
                                           "flash_optimum",
                                           "s2_attention",
                                           "gc_steps",
                                           "strict",
                                           "debug",
                                           "peft_init_lora_weights",
                                           "loss_watchdog_threshold",
                                           "loss_watchdog_patience",
                                           "lora_fan_in_fan_out",
                                           "flash_attn_rms_norm",
                                           "unsloth_cross_entropy_loss",
                                           "resize_token_embeddings_to_32x",
                                           "embeddings_skip_upcast",
                                           "fsdp_final_state_dict_type",
                                           "include_tkps",
                                           "use_tensorboard",
                                           "trl",
                                           "torchdistx_path",
                                           "gpu_memory_limit",
                                           "use_ray",
                                           "ray_run_name",
                                           "ray_num_workers",
                                           "resources_per_worker",
                                           "model_config",
                                           "overrides_of_model_config",
                                           "max_packed_sequence_len",
                                           "eta_min",
                                           "llama4_linearized_experts",
                                           "streaming_multipack_buffer_size",
                                           "reinit_weights",
                                           "gemma4_hybrid_attn_impl",
                                           "flex_attn_compile_kwargs",
                                           "use_swanlab",
                                           "swanlab_project",
                                           "swanlab_mode",
                                           "swanlab_experiment_name",
                                           "use_otel_metrics",
                                           "relora_prune_ratio",
                                           "lisa_step_interval",
                                           "gptq_groupsize",
                                           "gptq_disable_exllama",
                                           "low_cpu_mem_usage",
                                           "mean_resizing_embeddings",
                                           "experts_implementation",
                                           "torch_compile_options",
                                           "pad_to_multiple_of"};

void refuse_other_trainings(Keys& keys) {
  for (const std::string_view key : {"rl", "reward_model", "process_reward_model", "diffusion"})
    if (keys.has(key) && !is_off(keys.take(key)))
      throw keys.error(key, "preference and reward training are not modelled",
                       "supervised fine-tuning is; a DPO step needs more memory than its SFT");
}

/// resolve_dtype on a GPU that has bfloat16.
struct Precision {
  bool bf16 = true;
  bool fp16 = false;
  Dtype dtype = Dtype::bfloat16;
};

/// As pydantic reads `Literal["auto"] | bool | None`, and "full" of former releases.
bool asks(const Keys& keys, std::string_view key, const ConfigValue& value) {
  if (!value.is_string()) return value.truthy();
  if (value.is("auto") || value.is("full")) return true;
  try {
    return str_to_bool(value.string());
  } catch (const Refusal&) {
    throw keys.error(key, fmt::format("expected auto, true or false, got {}", value.repr()),
                     "write auto, true or false");
  }
}

bool asks(Keys& keys, std::string_view key) {
  const ConfigValue value = keys.take(key);
  return asks(keys, key, value);
}

Precision precision_of(Keys& keys, bool is_8bit) {
  ConfigValue bf16 = "auto";
  if (keys.has("bf16")) bf16 = keys.take("bf16");
  const bool fp16 = asks(keys, "fp16");
  const bool float16 = asks(keys, "float16"), bfloat16 = asks(keys, "bfloat16");
  keys.take("float32");
  Precision result{.bf16 = asks(keys, "bf16", bf16) && !(fp16 && bf16.is("auto"))};
  result.fp16 = fp16 && !result.bf16;
  if (result.bf16 || bfloat16) return result;
  result.dtype = is_8bit || fp16 || float16 ? Dtype::float16 : Dtype::float32;
  return result;
}

void read_adapter(Keys& keys, std::string_view kind, Recipe& recipe) {
  LoraArguments lora{.rank = keys.count("lora_r", 8),
                     .alpha = keys.number("lora_alpha", 8),
                     .dropout = keys.number("lora_dropout", 0)};
  lora.targets = keys.names("lora_target_modules");
  const bool linear = keys.flag("lora_target_linear", false);
  lora.target_parameters = keys.names("lora_target_parameters");
  lora.modules_to_save = keys.names("lora_modules_to_save");
  lora.dora = keys.flag("peft_use_dora", false);
  lora.rank_stabilized = keys.flag("peft_use_rslora", false);
  const ConfigValue ranks = keys.take("lora_rank_pattern");
  if (kind.empty()) return;
  if (kind != "lora" && kind != "qlora")
    throw keys.error("adapter", fmt::format("{} is not modelled", kind), "lora and qlora are");
  if (!linear && lora.targets.empty() && lora.target_parameters.empty())
    throw keys.error("adapter", "names no layers, so that PEFT finds none to adapt",
                     "write lora_target_linear: true or lora_target_modules");
  // All linear layers and those named; the head is named where it is to have an adapter.
  lora.all_linear = linear || lora.targets == std::vector<std::string>{"all-linear"};
  lora.lists_linear = linear;
  if (linear &&
      std::find(lora.targets.begin(), lora.targets.end(), "lm_head") != lora.targets.end())
    keys.warn("lora_target_modules", "not-modelled",
              "is left out: all linear layers but the head have adapters", {});
  recipe.adapter = adapter_of(lora);
  if (ranks.is_dict() && ranks.size() > 0) recipe.adapter.set("rank_pattern", ranks);
}

std::string quantization_of(Keys& keys, std::string_view kind, bool is_8bit, Dtype dtype) {
  const bool is_4bit = keys.flag("load_in_4bit", false);
  if (kind == "qlora" && is_8bit)
    throw keys.error("load_in_8bit", "axolotl refuses 8 bits with adapter: qlora",
                     "write load_in_4bit: true, or adapter: lora");
  if (kind == "qlora" && !is_4bit)
    throw keys.error("adapter", "axolotl's qlora requires load_in_4bit: true",
                     "write load_in_4bit: true, or adapter: lora");
  if (kind == "qlora") return fmt::format("nf4,double,compute={},storage=bfloat16", name_of(dtype));
  if (kind == "lora" && is_8bit) return "int8";
  if (is_4bit || is_8bit)
    keys.warn(is_4bit ? "load_in_4bit" : "load_in_8bit", "ignored-key",
              fmt::format("axolotl quantises {} only: the base is loaded whole",
                          is_4bit ? "with adapter: qlora" : "with adapter: lora"),
              is_4bit ? "write adapter: qlora" : "write adapter: lora");
  return {};
}

void set_checkpointing(Keys& keys, ConfigValue& arguments) {
  const ConfigValue given = keys.take("gradient_checkpointing");
  const ConfigValue options = keys.take("gradient_checkpointing_kwargs");
  if (given.is_string() && given.string().starts_with("offload"))
    keys.warn("gradient_checkpointing", "not-modelled",
              "is not modelled: checkpoints in host memory need less device memory", {});
  arguments.set("gradient_checkpointing", given.truthy());
  // utils/config/__init__.py, normalize_config.
  arguments.set("gradient_checkpointing_kwargs", options.is_dict() ? options : ConfigValue::dict());
  if (!options.is_dict()) set_reentrant(arguments, !keys.has("unfrozen_parameters"));
}

/// Keys of fsdp_config without their prefix, which is the old way of writing them.
ConfigValue without_prefix(const ConfigValue& options) {
  constexpr std::string_view prefix = "fsdp_";
  ConfigValue renamed = ConfigValue::dict();
  for (const ConfigValue::Entry& entry : options.entries()) {
    std::string key = entry.key;
    if (key.starts_with(prefix)) key.erase(0, prefix.size());
    // axolotl sets accelerate's variable of this name, which the Trainer calls cpu_offload.
    if (key == "offload_params") key = "cpu_offload";
    renamed.set(key, entry.value);
  }
  return renamed;
}

/// `fsdp` is the switch and fsdp_config says the rest; version 1 unless the file says 2. Source:
/// schemas/validation.py, core/builders/base.py.
void set_sharding(Keys& keys, ConfigValue& arguments) {
  const ConfigValue given = keys.take("fsdp_config");
  const ConfigValue version = keys.take("fsdp_version");
  const ConfigValue words = keys.take("fsdp");
  if (given.is_dict() || words.truthy()) {
    ConfigValue options = given.is_dict() ? without_prefix(given) : ConfigValue::dict();
    if (!version.is_null()) options.set("version", version);
    if (!options.has("version")) options.set("version", 1);
    arguments.set("fsdp", words.truthy() ? words : ConfigValue(true));
    arguments.set("fsdp_config", options);
  }
  if (keys.has("deepspeed")) arguments.set("deepspeed", keys.take("deepspeed"));
  keys.take("deepspeed");
}

std::string attention_of(Keys& keys) {
  const std::string named = keys.text("attn_implementation", "");
  const bool flash = keys.flag("flash_attention", false);
  const bool eager = keys.flag("eager_attention", false);
  if (named.starts_with("flash_attention") || flash) return "flash";
  return named == "eager" || eager ? "eager" : "";
}

/// axolotl's plug-ins that are modelled.
struct Plugins {
  bool liger = false;
  bool cut_cross_entropy = false;
};

/// Warns of other plug-ins: what they change is not modelled.
Plugins plugins_of(Keys& keys) {
  Plugins there;
  std::string others;
  for (const std::string& plugin : keys.names("plugins")) {
    if (plugin.ends_with(".LigerPlugin"))
      there.liger = true;
    else if (plugin.ends_with(".CutCrossEntropyPlugin"))
      there.cut_cross_entropy = true;
    else
      others += (others.empty() ? "" : ", ") + plugin;
  }
  if (!others.empty())
    keys.warn("plugins", "not-modelled", fmt::format("is not modelled: {}", others), {});
  return there;
}

/// The plug-in is on unless its key says false. Source: axolotl at 0206321,
/// integrations/cut_cross_entropy/args.py.
std::string loss_of(Keys& keys, const Plugins& plugins) {
  const bool given = keys.has("cut_cross_entropy");
  const bool on = keys.flag("cut_cross_entropy", true);
  if (plugins.cut_cross_entropy) return on ? "cut" : "";
  if (given && on)
    keys.warn("cut_cross_entropy", "ignored-key",
              "does nothing without the plug-in "
              "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin",
              "add it to plugins, or remove the key");
  return "";
}

/// The switches of axolotl's plug-in for Liger, as --liger takes them. Source: axolotl at 0206321,
/// integrations/liger/plugin.py.
std::string liger_of(Keys& keys, const Plugins& plugins) {
  constexpr std::pair<std::string_view, std::string_view> switches[] = {
      {"liger_rope", "rope"},
      {"liger_rms_norm", "rms_norm"},
      {"liger_glu_activation", "swiglu"},
      {"liger_swiglu", "swiglu"},  // its older name
      {"liger_fused_linear_cross_entropy", "fused_linear_cross_entropy"}};
  const bool is_there = plugins.liger;
  std::string names;
  for (const auto& [key, name] : switches) {
    if (!keys.flag(key, false)) continue;
    if (is_there)
      names += (names.empty() ? "" : "+") + std::string(name);
    else
      keys.warn(key, "ignored-key",
                "does nothing without the plug-in axolotl.integrations.liger.LigerPlugin",
                "add it to plugins, or remove the key");
  }
  return names;
}

/// gradient_accumulation_steps, else batch_size // micro_batch_size.
std::int64_t accumulation(Keys& keys, std::int64_t micro_batch) {
  const std::int64_t batch = keys.count("batch_size", micro_batch);
  return keys.has("gradient_accumulation_steps") ? keys.count("gradient_accumulation_steps", 1)
                                                 : std::max<std::int64_t>(1, batch / micro_batch);
}

/// The fused kernels that axolotl turns on by itself.
void note_kernels(Keys& keys, std::string_view kind, bool is_8bit, Recipe& recipe) {
  bool given = false;
  bool on = false;
  for (const std::string_view key :
       {"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel"}) {
    given = given || keys.has(key);
    on = keys.flag(key, false) || on;
  }
  if (kind.empty() || (kind == "lora" && is_8bit && !given)) return;
  if (on || !given)
    recipe.assumed.emplace_back(
        "axolotl's fused LoRA kernels are left out: they need less memory than PEFT's layers");
}

}  // namespace

Recipe read_axolotl(const ConfigValue& value, const std::string& file) {
  Keys keys(value, file);
  refuse_other_trainings(keys);
  Recipe recipe;
  recipe.model = keys.text("base_model", "");
  const std::string kind = keys.text("adapter", "");
  const bool is_8bit = keys.flag("load_in_8bit", false);
  const Precision precision = precision_of(keys, is_8bit);
  recipe.base_dtype = precision.dtype;
  recipe.quantization = quantization_of(keys, kind, is_8bit, precision.dtype);
  read_adapter(keys, kind, recipe);
  recipe.length = keys.count("sequence_len", default_length);
  if (!keys.flag("pad_to_sequence_len", false) && !keys.flag("sample_packing", false))
    recipe.assumed.emplace_back("every sequence has sequence_len tokens");
  recipe.training_arguments = ConfigValue::dict();
  ConfigValue& arguments = recipe.training_arguments;
  // Those of the same name; what axolotl makes of others overrules them.
  take_training_arguments(keys, arguments);
  const std::int64_t micro_batch = keys.count("micro_batch_size", 1);
  arguments.set("per_device_train_batch_size", micro_batch);
  arguments.set("per_device_eval_batch_size", keys.count("eval_batch_size", micro_batch));
  arguments.set("gradient_accumulation_steps", accumulation(keys, micro_batch));
  arguments.set("bf16", precision.bf16);
  arguments.set("fp16", precision.fp16);
  arguments.set("optim", keys.text("optimizer", "adamw_torch_fused"));
  if (arguments.get("optim").is("muon"))
    recipe.assumed.emplace_back("axolotl-contribs-mit's Muon is taken as Moonlight's");
  set_checkpointing(keys, arguments);
  // normalize_config, of the first two. The text model alone stands for them here.
  recipe.not_reentrant_families = {"gemma4", "gemma4_unified", "gemma4_text"};
  set_sharding(keys, arguments);
  recipe.attention = attention_of(keys);
  const Plugins plugins = plugins_of(keys);
  recipe.liger = liger_of(keys, plugins);
  recipe.loss = loss_of(keys, plugins);
  note_kernels(keys, kind, is_8bit, recipe);
  // `axolotl train`: set_pytorch_cuda_alloc_conf of utils/__init__.py.
  recipe.allocator = "expandable_segments:True";
  // loaders/model.py, _configure_embedding_dtypes, _prepare_model_for_quantization.
  recipe.casts_ends_and_back = !kind.empty() && !arguments.has("fsdp");
  if (kind.empty() && !arguments.has("fsdp") && recipe.attention != "flash" && recipe.loss != "cut")
    recipe.assumed.emplace_back(
        "norms, embedding and head train in the model's dtype (without flash attention axolotl "
        "keeps them in float32)");
  recipe.prepares_for_kbit = recipe.casts_ends_and_back && !recipe.quantization.empty();
  keys.finish(left_out, no_bearing, trainer_keys(), "axolotl");
  recipe.findings = keys.take_findings();
  return recipe;
}

}  // namespace shardscope::recipes
