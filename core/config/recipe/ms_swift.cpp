#include <fmt/format.h>

#include <algorithm>

#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"
#include "core/config/values/config_json.h"

namespace shardscope::recipes {
namespace {

/// TrainArgumentsMixin: the batch of a step that accumulation is chosen for.
constexpr std::int64_t sequences_per_step = 16;

constexpr LeftOut left_out[] = {
    {"freeze_parameters", "every layer is taken to train"},
    {"freeze_parameters_ratio", "every layer is taken to train"},
    {"trainable_parameters", "what else trains is left out"},
    {"lora_dtype", "adapters are taken as PEFT's default has them"},
    {"use_galore", "GaLore's states are not modelled"},
    {"lisa_activated_layers", "LISA is not modelled"},
    {"sequence_parallel_size", "sequence parallelism is not modelled here"},
    {"padding_free", "batches without padding hold fewer tokens than is predicted"},
    {"device_map", "a model spread over devices is not modelled"},
    {"rope_scaling", "other frequencies need no other memory"},
    {"adapters", "an adapter of earlier is taken as a new one"},
    {"loss_type", "its loss is not modelled: the logits are taken whole"},
    {"zero_hpz_partition_size", "ZeRO++ is not modelled here"},
    {"new_special_tokens", "added tokens make embedding and head larger"}};

constexpr std::string_view no_bearing[] = {"model_type",
                                           "model_revision",
                                           "task_type",
                                           "experts_impl",
                                           "num_labels",
                                           "problem_type",
                                           "max_memory",
                                           "max_model_len",
                                           "local_repo_path",
                                           "init_strategy",
                                           "hqq_axis",
                                           "freeze_llm",
                                           "freeze_vit",
                                           "freeze_aligner",
                                           "lorap_lr_ratio",
                                           "init_weights",
                                           "tuner_backend",
                                           "external_plugins",
                                           "custom_register_path",
                                           "model_kwargs",
                                           "load_args",
                                           "load_data_args",
                                           "packing_length",
                                           "packing_num_proc",
                                           "packing_strategy",
                                           "lazy_tokenize",
                                           "use_hf",
                                           "hub_token",
                                           "ignore_args_error",
                                           "use_swift_lora",
                                           "template",
                                           "system",
                                           "truncation_strategy",
                                           "max_pixels",
                                           "agent_template",
                                           "norm_bbox",
                                           "use_chat_template",
                                           "padding_side",
                                           "loss_scale",
                                           "template_backend",
                                           "response_prefix",
                                           "enable_thinking",
                                           "dataset",
                                           "val_dataset",
                                           "cached_dataset",
                                           "cached_val_dataset",
                                           "split_dataset_ratio",
                                           "dataset_num_proc",
                                           "load_from_cache_file",
                                           "dataset_shuffle",
                                           "val_dataset_shuffle",
                                           "streaming",
                                           "interleave_prob",
                                           "stopping_strategy",
                                           "shuffle_buffer_size",
                                           "download_mode",
                                           "columns",
                                           "strict",
                                           "model_name",
                                           "model_author",
                                           "custom_dataset_info",
                                           "add_version",
                                           "create_checkpoint_symlink",
                                           "max_new_tokens",
                                           "temperature",
                                           "vit_gradient_checkpointing",
                                           "router_aux_loss_coef",
                                           "safe_serialization",
                                           "max_shard_size",
                                           "check_model",
                                           "acc_strategy",
                                           "train_dataloader_shuffle",
                                           "max_epochs",
                                           "aligner_lr",
                                           "vit_lr",
                                           "resume_only_model",
                                           "callbacks",
                                           "early_stop_interval",
                                           "eval_use_evalscope",
                                           "eval_dataset",
                                           "eval_limit",
                                           "logging_dir",
                                           "swanlab_project",
                                           "swanlab_exp_name",
                                           "swanlab_token",
                                           "swanlab_mode",
                                           "add_non_thinking_prefix",
                                           "metric",
                                           "use_ray"};

bool is_preference(Keys& keys) {
  const std::string type = keys.text("rlhf_type", "");
  if (type.empty() || type == "dpo") return !type.empty();
  throw keys.error("rlhf_type", fmt::format("{} is not modelled", type),
                   "supervised fine-tuning and dpo are");
}

/// rlhf_trainers/dpo_trainer.py and arguments/rlhf_args.py. Which losses of the pairs are chosen
/// matters little: all are made of sums of log-probabilities.
void read_preference(Keys& keys, bool lora, Recipe& recipe) {
  recipe.reference = lora ? "adapter-off" : "copy";
  for (const char* key : {"loss_type", "beta", "rpo_alpha", "ld_alpha", "label_smoothing",
                          "loss_weights", "f_divergence_type"})
    keys.take(key);
  if (keys.has("ref_model"))
    keys.warn("ref_model", "not-modelled",
              "another model as reference is not modelled: it is taken to be the model itself", {});
  keys.take("ref_model");
}

/// trainers/mixin.py, get_use_logits_to_keep: text models make no logits of prompts.
void read_loss(Keys& keys, bool prefers, Recipe& recipe) {
  const bool keeps = keys.flag("use_logits_to_keep", true);
  if (prefers || keeps) recipe.loss = prefers ? "dpo-swift" : "kept";
  // All logits, however long the prompts are.
  if (prefers && !keeps) recipe.prompt = 0;
  if (keeps)
    recipe.assumed.emplace_back(
        "answers from the first token on (--prompt N leaves out the first N tokens)");
}

bool uses_lora(Keys& keys) {
  // train_type is the name before ms-swift 4.
  const ConfigValue given = keys.take({"tuner_type", "train_type", "sft_type"});
  const std::string type = given.is_string() ? given.string() : "lora";
  if (type == "lora" || type == "full") return type == "lora";
  throw keys.error(keys.has("tuner_type") ? "tuner_type" : "train_type",
                   fmt::format("{} is not modelled", type), "lora and full are");
}

/// DPOConfig's disable_dropout turns off the adapter's dropout, too.
void read_adapter(Keys& keys, bool uses, bool prefers, Recipe& recipe) {
  const double dropout = keys.number("lora_dropout", 0.05);
  LoraArguments lora{.rank = keys.count("lora_rank", 8),
                     .alpha = keys.number("lora_alpha", 32),
                     .dropout = prefers ? 0 : dropout,
                     .targets = keys.names("target_modules"),
                     .target_parameters = keys.names("target_parameters"),
                     .modules_to_save = keys.names("modules_to_save"),
                     .rank_stabilized = keys.flag("use_rslora", false),
                     .dora = keys.flag("use_dora", false)};
  lora.all_linear = lora.targets.empty() || lora.targets == std::vector<std::string>{"all-linear"};
  lora.lists_linear = lora.all_linear;
  const std::string pattern = keys.text("target_regex", "");
  const std::string bias = keys.text("lora_bias", "none");
  if (!uses) return;
  recipe.adapter = adapter_of(lora);
  if (!pattern.empty()) recipe.adapter.set("target_modules", pattern);
  if (bias != "none") recipe.adapter.set("bias", bias);
}

std::string quantization_of(Keys& keys, std::string_view dtype) {
  const std::string method = keys.text("quant_method", "");
  const std::int64_t bits = keys.count("quant_bits", 4);
  const std::string compute =
      keys.text("bnb_4bit_compute_dtype", dtype == "bfloat16" ? "bfloat16" : "float32");
  const std::string type = keys.text("bnb_4bit_quant_type", "nf4");
  const bool twice = keys.flag("bnb_4bit_use_double_quant", true);
  const std::string storage = keys.text("bnb_4bit_quant_storage", "");
  if (method.empty()) return {};
  if (method != "bnb")
    throw keys.error("quant_method", fmt::format("{} is not modelled", method), "bnb is");
  if (bits == 8) return "int8";
  if (bits == 4)
    return fmt::format("{}{},compute={}{}", type, twice ? ",double" : "", compute,
                       storage.empty() ? "" : ",storage=" + storage);
  throw keys.error("quant_bits", fmt::format("bitsandbytes has 4 and 8 bits, not {}", bits),
                   "write 4 or 8");
}

/// The files of ms-swift 4.6.0, swift/config: zero0 to zero3, zero2_offload and zero3_offload.
ConfigValue own_deepspeed(int stage, bool offloads) {
  ConfigValue zero = ConfigValue::dict({{"stage", stage}});
  const auto offload = [&](const char* key) {
    zero.set(key, ConfigValue::dict({{"device", offloads ? "cpu" : "none"}, {"pin_memory", true}}));
  };
  if (stage > 0) offload("offload_optimizer");
  if (stage == 3) offload("offload_param");
  const std::string more = stage == 3
                               ? R"({"overlap_comm": false, "contiguous_gradients": true,
        "sub_group_size": 1e9, "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",
        "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
        "stage3_gather_16bit_weights_on_model_save": true})"
                               : R"({"allgather_partitions": true, "allgather_bucket_size": 2e8,
        "overlap_comm": false, "reduce_scatter": true, "reduce_bucket_size": 2e8,
        "contiguous_gradients": true})";
  const ConfigValue stated = read_json(more, "swift/config");
  for (const ConfigValue::Entry& entry : stated.entries()) zero.set(entry.key, entry.value);
  ConfigValue config = read_json(R"({"fp16": {"enabled": "auto", "loss_scale": 0,
      "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2,
      "min_loss_scale": 1}, "bf16": {"enabled": "auto"}, "gradient_accumulation_steps": "auto",
      "gradient_clipping": "auto", "train_batch_size": "auto",
      "train_micro_batch_size_per_gpu": "auto"})",
                                 "swift/config");
  config.set("zero_optimization", std::move(zero));
  return config;
}

/// Names of ms-swift's own files stand for what is in them. fsdp2.json checkpoints by FSDP, and the
/// Trainer's checkpoints are off then. Source: swift/arguments/sft_args.py, _init_deepspeed,
/// _init_fsdp, _check_fsdp2_compatibility.
void take_own_files(ConfigValue& arguments) {
  if (const ConfigValue name = arguments.get("deepspeed"); name.is_string())
    for (int stage = 0; stage <= 3; ++stage) {
      const std::string own = fmt::format("zero{}", stage);
      const bool offloads = stage >= 2 && name.is(own + "_offload");
      if (name.is(own) || offloads) arguments.set("deepspeed", own_deepspeed(stage, offloads));
    }
  if (!arguments.get("fsdp").is("fsdp2")) return;
  arguments.set("fsdp", "full_shard auto_wrap");
  arguments.set("fsdp_config", read_json(R"({"fsdp_version": 2, "reshard_after_forward": true,
      "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "cpu_ram_efficient_loading": true,
      "state_dict_type": "SHARDED_STATE_DICT", "activation_checkpointing": true})",
                                         "swift/config/fsdp2.json"));
  arguments.set("gradient_checkpointing", false);
}

}  // namespace

Recipe read_ms_swift(const ConfigValue& value, const std::string& file) {
  Keys keys(value, file);
  const bool prefers = is_preference(keys);
  Recipe recipe;
  recipe.model = keys.text("model", "");
  const bool lora = uses_lora(keys);
  const std::string dtype = keys.text("torch_dtype", "");
  if (!dtype.empty()) recipe.base_dtype = parse_dtype(dtype, file + ": torch_dtype");
  recipe.quantization = quantization_of(keys, dtype.empty() ? "bfloat16" : dtype);
  read_adapter(keys, lora, prefers, recipe);
  if (prefers) read_preference(keys, lora, recipe);
  read_loss(keys, prefers, recipe);
  if (keys.has("max_length")) recipe.length = keys.count("max_length", 1);
  if (!keys.flag("packing", false))
    recipe.assumed.emplace_back("every sequence has max_length tokens");
  const std::string attention = keys.text("attn_impl", "");
  if (attention.starts_with("flash")) recipe.attention = "flash";
  if (attention == "eager") recipe.attention = "eager";
  if (keys.has("nproc_per_node")) recipe.world = keys.count("nproc_per_node", 1);
  recipe.training_arguments = ConfigValue::dict();
  ConfigValue& arguments = recipe.training_arguments;
  take_training_arguments(keys, arguments);
  // swift/optimizers/mapping.py.
  if (const std::string own = keys.text("optimizer", ""); own == "muon")
    arguments.set("optim", own);
  else if (!own.empty() && own != "default")
    keys.warn("optimizer", "not-modelled", fmt::format("{} of ms-swift is not modelled", own), {});
  const std::int64_t batch = keys.count("per_device_train_batch_size", 1);
  const std::int64_t ranks = recipe.world.value_or(1);
  arguments.set("per_device_train_batch_size", batch);
  if (!arguments.has("per_device_eval_batch_size"))
    arguments.set("per_device_eval_batch_size", std::int64_t{1});
  arguments.set("gradient_accumulation_steps",
                keys.count("gradient_accumulation_steps",
                           std::max<std::int64_t>(
                               1, (sequences_per_step + batch * ranks - 1) / (batch * ranks))));
  arguments.set("gradient_checkpointing", keys.flag("gradient_checkpointing", true));
  // trainers/mixin.py, _fix_gradient_checkpointing.
  if (arguments.get("gradient_checkpointing_kwargs").get("use_reentrant").is_null()) {
    set_reentrant(arguments, true);
    recipe.not_reentrant_under = Runtime::ddp;
  }
  // fp16 and bf16 follow torch_dtype.
  const bool half = dtype == "float16" || dtype == "float32";
  if (!arguments.has("bf16")) arguments.set("bf16", !half && !arguments.get("fp16").truthy());
  if (!arguments.has("fp16")) arguments.set("fp16", half && !arguments.get("bf16").truthy());
  take_own_files(arguments);
  keys.finish(left_out, no_bearing, trainer_keys(), "ms-swift");
  recipe.findings = keys.take_findings();
  return recipe;
}

}  // namespace shardscope::recipes
