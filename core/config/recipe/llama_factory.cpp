#include <fmt/format.h>

#include <iterator>

#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"

namespace shardscope::recipes {
namespace {

constexpr LeftOut left_out[] = {
    {"shift_attn", "shifted sparse attention needs less memory than is predicted"},
    {"mixture_of_depths", "mixture of depths changes the layers"},
    {"use_unsloth", "Unsloth's kernels need less memory than is predicted"},
    {"use_unsloth_gc", "checkpoints in host memory need less device memory"},
    {"upcast_lmhead_output", "logits in float32 need more memory than is predicted"},
    {"resize_vocab", "added tokens make embedding and head larger"},
    {"rope_scaling", "other frequencies need no other memory; the length is yours to give"},
    {"neat_packing", "attention that knows where packed samples end is left out"},
    {"pissa_init", "the memory of the initialisation is left out"},
    {"adapter_name_or_path", "an adapter of earlier is taken as a new one"},
    {"use_kt", "KTransformers runs experts on the host"},
    {"use_galore", "GaLore's states are not modelled"},
    {"use_apollo", "APOLLO's states are not modelled"},
    {"use_badam", "BAdam's states are not modelled"},
    {"use_adam_mini", "Adam-mini's states are not modelled"},
    {"use_mca", "Megatron is not modelled here"},
    {"use_megatron_bridge", "Megatron is not modelled here"},
    {"use_llama_pro", "expanded blocks are not modelled"},
    {"use_dft_loss", "its loss is not modelled: the logits are taken whole"},
    {"use_asft_loss", "its loss is not modelled: a reference model is left out"},
    {"use_eaft_loss", "its loss is not modelled: the logits are taken whole"},
    {"fp8", "FP8 is not modelled"},
    {"train_from_scratch", "weights are made rather than loaded"},
    {"ref_model_quantization_bit", "the reference is taken in the weights' own dtype"},
    {"moe_aux_loss_coef", "the loss of the router is left out"}};

/// The families known here for which it turns Liger on; for others it warns and changes nothing.
/// Source: llamafactory 0.9.5, model/model_utils/liger_kernel.py.
constexpr std::string_view liger_families[] = {
    "gemma",   "gemma2",  "gemma3_text", "glm",  "glm4",  "gpt_oss", "granite",  "llama",
    "mistral", "mixtral", "olmo2",       "phi3", "qwen2", "qwen3",   "qwen3_moe"};

constexpr std::string_view no_bearing[] = {"pref_beta",
                                           "pref_ftx",
                                           "pref_bco_weight",
                                           "dpo_label_smoothing",
                                           "simpo_gamma",
                                           "ld_alpha",
                                           "ref_model_adapters",
                                           "adapter_folder",
                                           "cache_dir",
                                           "use_fast_tokenizer",
                                           "split_special_tokens",
                                           "add_tokens",
                                           "add_special_tokens",
                                           "new_special_tokens_config",
                                           "init_special_tokens",
                                           "model_revision",
                                           "low_cpu_mem_usage",
                                           "infer_backend",
                                           "offload_folder",
                                           "use_kv_cache",
                                           "infer_dtype",
                                           "hf_hub_token",
                                           "ms_hub_token",
                                           "om_hub_token",
                                           "print_param_status",
                                           "trust_remote_code",
                                           "quantization_device_map",
                                           "image_max_pixels",
                                           "image_min_pixels",
                                           "image_do_pan_and_scan",
                                           "crop_to_patches",
                                           "video_max_pixels",
                                           "video_min_pixels",
                                           "video_fps",
                                           "video_maxlen",
                                           "use_audio_in_video",
                                           "audio_sampling_rate",
                                           "export_dir",
                                           "export_size",
                                           "export_device",
                                           "export_hub_model_id",
                                           "export_legacy_format",
                                           "loraplus_lr_ratio",
                                           "loraplus_lr_embedding",
                                           "pissa_iter",
                                           "pissa_convert",
                                           "create_new_adapter",
                                           "use_swanlab",
                                           "swanlab_project",
                                           "swanlab_workspace",
                                           "swanlab_run_name",
                                           "swanlab_mode",
                                           "swanlab_api_key",
                                           "swanlab_logdir",
                                           "compute_accuracy",
                                           "disable_shuffling",
                                           "early_stopping_steps",
                                           "plot_loss",
                                           "include_effective_tokens_per_second",
                                           "freeze_vision_tower",
                                           "freeze_multi_modal_projector",
                                           "freeze_language_model",
                                           "template",
                                           "dataset",
                                           "eval_dataset",
                                           "dataset_dir",
                                           "media_dir",
                                           "train_on_prompt",
                                           "mask_history",
                                           "streaming",
                                           "buffer_size",
                                           "mix_strategy",
                                           "interleave_probs",
                                           "overwrite_cache",
                                           "preprocessing_batch_size",
                                           "preprocessing_num_workers",
                                           "max_samples",
                                           "eval_num_beams",
                                           "ignore_pad_token_for_loss",
                                           "val_size",
                                           "eval_on_each_dataset",
                                           "tool_format",
                                           "default_system",
                                           "enable_thinking",
                                           "preserve_thinking",
                                           "tokenized_path",
                                           "data_shared_file_system",
                                           "ray_run_name",
                                           "ray_storage_path",
                                           "ray_storage_filesystem",
                                           "ray_num_workers",
                                           "resources_per_worker",
                                           "placement_strategy",
                                           "ray_init_kwargs",
                                           "master_addr",
                                           "master_port",
                                           "enable_torch_profiler",
                                           "galore_target",
                                           "galore_rank",
                                           "galore_update_interval",
                                           "galore_scale",
                                           "galore_layerwise",
                                           "use_v1_kernels",
                                           "fp8_backend",
                                           "fp8_enable_fsdp_float8_all_gather",
                                           "asft_alpha",
                                           "eaft_alpha",
                                           "badam_mode",
                                           "badam_switch_interval",
                                           "apollo_rank",
                                           "apollo_target",
                                           "apollo_layerwise",
                                           "apollo_scale",
                                           "export_quantization_bit",
                                           "export_quantization_dataset",
                                           "export_quantization_nsamples",
                                           "export_quantization_maxlen",
                                           "vllm_maxlen",
                                           "vllm_gpu_util",
                                           "vllm_enforce_eager",
                                           "vllm_max_lora_rank",
                                           "vllm_config",
                                           "sglang_maxlen",
                                           "sglang_mem_fraction",
                                           "sglang_tp_size",
                                           "sglang_config",
                                           "sglang_lora_backend",
                                           "kt_weight_path",
                                           "kt_expert_checkpoint_path",
                                           "kt_use_lora_experts",
                                           "kt_lora_expert_num",
                                           "kt_lora_expert_intermediate_size",
                                           "do_sample",
                                           "temperature",
                                           "top_p",
                                           "top_k",
                                           "num_beams",
                                           "max_length",
                                           "max_new_tokens",
                                           "repetition_penalty",
                                           "length_penalty",
                                           "skip_special_tokens",
                                           "freeze_trainable_layers",
                                           "freeze_trainable_modules",
                                           "freeze_extra_modules",
                                           "module_dropout",
                                           "oft_rank",
                                           "oft_block_size",
                                           "oft_target",
                                           "pref_loss",
                                           "kto_chosen_weight",
                                           "kto_rejected_weight",
                                           "ppo_buffer_size",
                                           "ppo_epochs",
                                           "ppo_score_norm",
                                           "ppo_target",
                                           "ppo_whiten_rewards",
                                           "ref_model",
                                           "reward_model",
                                           "reward_model_adapters",
                                           "reward_model_quantization_bit",
                                           "reward_model_type",
                                           "galore_proj_type",
                                           "apollo_update_interval",
                                           "apollo_proj",
                                           "apollo_proj_type",
                                           "apollo_scale_type",
                                           "apollo_scale_front",
                                           "badam_start_block",
                                           "badam_switch_mode",
                                           "badam_update_ratio",
                                           "badam_mask_mode",
                                           "badam_verbose",
                                           "swanlab_lark_webhook_url",
                                           "swanlab_lark_secret",
                                           "use_hyper_parallel",
                                           "hyper_parallel_args",
                                           "profiler_output_dir",
                                           "profiler_wait_steps",
                                           "profiler_warmup_steps",
                                           "profiler_active_steps",
                                           "profiler_repeat",
                                           "profiler_record_shapes",
                                           "profiler_profile_memory",
                                           "profiler_with_stack",
                                           "profile_modules"};

/// Whether it is DPO, or a loss that takes its place.
bool is_preference(Keys& keys) {
  const std::string stage = keys.text("stage", "sft");
  if (stage == "sft" || stage == "pt" || stage == "dpo") return stage == "dpo";
  throw keys.error("stage", fmt::format("the stage {} is not modelled", stage),
                   "sft, pt and dpo are");
}

/// CustomDPOTrainer and create_ref_model. ORPO and SimPO compare with no reference.
void read_preference(Keys& keys, bool lora, Recipe& recipe) {
  const std::string loss = keys.text("pref_loss", "sigmoid");
  const bool compares = loss != "orpo" && loss != "simpo";
  recipe.loss = "dpo-logits";
  recipe.reference = !compares ? "none" : lora ? "adapter-off" : "copy";
  if (keys.has("ref_model"))
    keys.warn("ref_model", "not-modelled",
              "another model as reference is not modelled: it is taken to be the model itself", {});
  keys.take("ref_model");
}

bool uses_lora(Keys& keys) {
  const std::string type = keys.text("finetuning_type", "lora");
  if (type == "lora" || type == "full") return type == "lora";
  throw keys.error("finetuning_type", fmt::format("{} is not modelled", type), "lora and full are");
}

/// disable_dropout_in_model takes the adapter's dropout away, too.
void read_adapter(Keys& keys, bool uses, bool drops, Recipe& recipe) {
  LoraArguments lora{.rank = keys.count("lora_rank", 8)};
  // FinetuningArguments.__post_init__: lora_alpha or 2 * lora_rank.
  const double alpha = keys.number("lora_alpha", 0);
  lora.alpha = alpha != 0 ? alpha : static_cast<double>(2 * lora.rank);
  lora.dropout = drops * keys.number("lora_dropout", 0);
  lora.targets = keys.names("lora_target");
  lora.all_linear = lora.targets.empty() || lora.targets == std::vector<std::string>{"all"};
  lora.lists_linear = lora.all_linear;
  lora.modules_to_save = keys.names("additional_target");
  lora.rank_stabilized = keys.flag("use_rslora", false);
  lora.dora = keys.flag("use_dora", false);
  if (uses) recipe.adapter = adapter_of(lora);
}

std::string quantization_of(Keys& keys, bool lora, std::string_view compute) {
  const std::string method = keys.text("quantization_method", "bnb");
  const std::string type = keys.text("quantization_type", "nf4");
  const bool twice = keys.flag("double_quantization", true);
  if (!keys.has("quantization_bit")) return keys.take("quantization_bit"), std::string();
  const std::int64_t bits = keys.count("quantization_bit", 4);
  if (!lora)
    throw keys.error("quantization_bit", "LLaMA-Factory quantises a base for LoRA or OFT only",
                     "write finetuning_type: lora, or remove the key");
  if (method != "bnb" && method != "bitsandbytes")
    throw keys.error("quantization_method", fmt::format("{} is not modelled", method),
                     "bnb is; write it, or remove quantization_bit");
  if (bits == 8) return "int8";
  if (bits == 4)
    return fmt::format("{}{},compute={},storage={}", type, twice ? ",double" : "", compute,
                       compute);
  throw keys.error("quantization_bit", fmt::format("bitsandbytes has 4 and 8 bits, not {}", bits),
                   "write 4 or 8");
}

}  // namespace

Recipe read_llama_factory(const ConfigValue& value, const std::string& file) {
  Keys keys(value, file);
  const bool prefers = is_preference(keys);
  Recipe recipe;
  recipe.model = keys.text("model_name_or_path", "");
  const bool lora = uses_lora(keys);
  const bool pure_bf16 = keys.flag("pure_bf16", false);
  recipe.training_arguments = ConfigValue::dict();
  ConfigValue& arguments = recipe.training_arguments;
  take_training_arguments(keys, arguments);
  // train/trainer_utils.py, create_custom_optimizer: whatever optim says.
  if (keys.flag("use_muon", false)) arguments.set("optim", "muon");
  const bool fp16 = arguments.get("fp16").truthy();
  recipe.quantization = quantization_of(keys, lora, fp16 ? "float16" : "bfloat16");
  read_adapter(keys, lora, !prefers || !keys.flag("disable_dropout", true), recipe);
  if (prefers) read_preference(keys, lora, recipe);
  // What trains becomes float32, but under pure_bf16 and where ZeRO-3 holds it so anyway.
  const bool zero3 = names_zero3(arguments.get("deepspeed"));
  if (!pure_bf16 && (!zero3 || !recipe.quantization.empty()))
    recipe.trainable_dtype = Dtype::float32;
  const bool checkpoints = !keys.flag("disable_gradient_checkpointing", false);
  arguments.set("gradient_checkpointing", checkpoints);
  // model/model_utils/checkpointing.py.
  recipe.not_reentrant_under = Runtime::fsdp2;
  arguments.set("gradient_checkpointing_kwargs",
                ConfigValue::dict({{"use_reentrant", keys.flag("use_reentrant_gc", true)}}));
  recipe.prepares_for_kbit = false;
  if (keys.flag("upcast_layernorm", false))
    keys.warn("upcast_layernorm", "not-modelled",
              "is not modelled: norms in float32 need a little more memory", {});
  recipe.length = keys.count("cutoff_len", 2048);
  if (!keys.flag("packing", false))
    recipe.assumed.emplace_back("every sequence has cutoff_len tokens");
  const std::string attention = keys.text("flash_attn", "auto");
  if (attention == "fa2") recipe.attention = "flash";
  if (attention == "disabled") recipe.attention = "eager";
  constexpr std::string_view known[] = {"auto", "disabled", "sdpa", "fa2", "fa3"};
  if (std::find(std::begin(known), std::end(known), attention) == std::end(known))
    throw keys.error(
        "flash_attn",
        fmt::format("LLaMA-Factory raises NotImplementedError: Unknown attention type: {}",
                    attention),
        "write auto, disabled, sdpa, fa2 or fa3");
  if (keys.flag("enable_liger_kernel", false)) {
    recipe.liger = "on";
    recipe.liger_families.assign(std::begin(liger_families), std::end(liger_families));
  }
  // `llamafactory-cli train` where it starts torchrun: OPTIM_TORCH of launcher.py.
  recipe.allocator = "expandable_segments:True";
  recipe.allocator_of_several = true;
  if (lora && !arguments.has("ddp_find_unused_parameters"))
    arguments.set("ddp_find_unused_parameters", false);
  // hparams/parser.py, _parse_args: unless ALLOW_EXTRA_ARGS is set.
  keys.finish(left_out, no_bearing, trainer_keys(), "LLaMA-Factory 0.9.5", UnknownKeys::refused);
  recipe.findings = keys.take_findings();
  return recipe;
}

}  // namespace shardscope::recipes
