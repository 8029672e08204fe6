#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "core/config/recipe/command_line.h"
#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"

namespace shardscope::recipes {
namespace {

constexpr std::int64_t default_length = 1024;     // max_length of SFTConfig and DPOConfig
constexpr std::int64_t default_completion = 256;  // GRPOConfig.max_completion_length
constexpr std::int64_t former_prompt = 512;       // GRPOConfig.max_prompt_length until TRL 0.26

enum class Trainer : std::uint8_t { sft, dpo, grpo };

constexpr LeftOut left_out[] = {
    {"activation_offloading", "activations in host memory need less device memory"},
    {"router_aux_loss_coef", "the loss of the router is left out"},
    {"cast_lm_head_to_fp32", "a head in float32 needs more memory than is predicted"},
    {"use_vllm", "generation is left out, and so is the memory of a vLLM on the same GPU"},
    {"model_init_kwargs", "what it tells from_pretrained is not read"}};

constexpr std::string_view no_bearing[] = {"model_revision",
                                           "trust_remote_code",
                                           "lora_task_type",
                                           "chat_template_path",
                                           "dataset_text_field",
                                           "dataset_kwargs",
                                           "dataset_num_proc",
                                           "eos_token",
                                           "pad_token",
                                           "truncation_mode",
                                           "shuffle_dataset",
                                           "pad_to_multiple_of",
                                           "eval_packing",
                                           "completion_only_loss",
                                           "assistant_only_loss",
                                           "dataset_name",
                                           "dataset_config",
                                           "dataset_train_split",
                                           "dataset_test_split",
                                           "dataset_streaming",
                                           "ignore_bias_buffers",
                                           "datasets",
                                           "dataset_mixture",
                                           "streaming",
                                           "columns",
                                           "test_split_size",
                                           "chat_template",
                                           "env",
                                           "benchmarks",
                                           "system_prompt"};

/// Of DPOConfig and GRPOConfig, without bearing on a step's memory.
constexpr std::string_view no_bearing_of_others[] = {"disable_dropout",
                                                     "label_smoothing",
                                                     "f_divergence_type",
                                                     "f_alpha_divergence_coef",
                                                     "discopop_tau",
                                                     "loss_weights",
                                                     "ld_alpha",
                                                     "precompute_ref_batch_size",
                                                     "ref_model_mixup_alpha",
                                                     "ref_model_sync_steps",
                                                     "sync_ref_model",
                                                     "reward_model_name_or_path",
                                                     "reward_funcs",
                                                     "num_generations",
                                                     "num_generations_eval",
                                                     "generation_batch_size",
                                                     "steps_per_generation",
                                                     "temperature",
                                                     "top_p",
                                                     "top_k",
                                                     "min_p",
                                                     "generation_kwargs",
                                                     "chat_template_kwargs",
                                                     "repetition_penalty",
                                                     "cache_implementation",
                                                     "vllm_mode",
                                                     "vllm_model_impl",
                                                     "vllm_enable_sleep_mode",
                                                     "vllm_structured_outputs_regex",
                                                     "vllm_server_base_url",
                                                     "vllm_server_host",
                                                     "vllm_server_port",
                                                     "vllm_server_timeout",
                                                     "vllm_group_port",
                                                     "vllm_gpu_memory_utilization",
                                                     "vllm_max_model_length",
                                                     "vllm_tensor_parallel_size",
                                                     "num_iterations",
                                                     "epsilon",
                                                     "epsilon_high",
                                                     "delta",
                                                     "reward_weights",
                                                     "scale_rewards",
                                                     "importance_sampling_level",
                                                     "multi_objective_aggregation",
                                                     "mask_truncated_completions",
                                                     "top_entropy_quantile",
                                                     "log_completions",
                                                     "num_completions_to_print",
                                                     "log_unique_prompts",
                                                     "max_tool_calling_iterations",
                                                     "remove_unused_columns"};

void refuse_other_trainers(const Keys& keys) {
  for (const std::string_view key :
       {"desirable_weight", "undesirable_weight", "center_rewards_coefficient", "rloo_k", "lmbda"})
    if (keys.has(key))
      throw keys.error(key, "belongs to KTO, RLOO, GKD or a reward model, which are not modelled",
                       "supervised fine-tuning (SFT), DPO and GRPO are");
}

void refuse_unpaired(const Keys& keys, const std::vector<std::string>& losses) {
  for (const std::string& loss : losses)
    if (loss == "kto" || loss == "apo_zero_unpaired")
      throw keys.error("loss_type", fmt::format("{} belongs to KTO, which is not modelled", loss),
                       "supervised fine-tuning (SFT), DPO and GRPO are");
}

constexpr std::string_view policy_losses[] = {"grpo",  "dapo", "dr_grpo", "bnpo",
                                              "cispo", "sapo", "vespo",   "luspo"};
constexpr std::string_view supervised_losses[] = {"nll", "chunked_nll", "dft"};
constexpr std::string_view packing_strategies[] = {"bfd", "bfd_split", "bfd-requeue", "wrapped"};

bool among(std::span<const std::string_view> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// By the command, or by keys and losses that only one of them has. A DPO file may have none.
Trainer trainer_of(Keys& keys) {
  const std::string command = keys.text(trl_command_key, "");
  const std::vector<std::string> losses = keys.names("loss_type");
  refuse_unpaired(keys, losses);
  const std::string loss = losses.empty() ? "" : losses.front();
  const bool other_loss = !loss.empty() && !among(supervised_losses, loss);
  if (command == "sft") {
    if (other_loss)
      throw keys.error("loss_type", fmt::format("\"{}\" is none of nll, chunked_nll, dft", loss),
                       "remove it");
    return Trainer::sft;
  }
  const auto has_any = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(names, [&](std::string_view name) { return keys.has(name); });
  };
  if (command == "grpo" || among(policy_losses, loss) ||
      has_any({"num_generations", "reward_funcs", "max_completion_length"}))
    return Trainer::grpo;
  if (command == "dpo" || other_loss ||
      has_any({"beta", "precompute_ref_log_probs", "f_divergence_type", "ld_alpha",
               "sync_ref_model", "max_prompt_length"}))
    return Trainer::dpo;
  return Trainer::sft;
}

void read_supervised(Keys& keys, Recipe& recipe) {
  recipe.length = keys.count("max_length", default_length);
  const bool packs = keys.flag("packing", false);
  const std::string strategy = keys.text("packing_strategy", "bfd");
  if (packs && !among(packing_strategies, strategy))
    throw keys.error("packing_strategy",
                     fmt::format("\"{}\" is none of bfd, bfd_split, wrapped", strategy),
                     "write bfd");
  recipe.flattens = keys.flag("padding_free", false) || (packs && strategy != "wrapped");
  if (!packs)
    recipe.assumed.emplace_back("every sequence has max_length tokens, each with a label");
  // LabelSmoother needs whole logits.
  if (!(keys.number("label_smoothing_factor", 0) > 0)) recipe.loss = "tiles";
}

void read_preference(Keys& keys, Recipe& recipe) {
  recipe.length = keys.count("max_length", default_length);
  recipe.loss = "dpo";
  keys.take("beta");
  if (keys.has("max_prompt_length"))
    keys.warn("max_prompt_length", "ignored-key",
              "TRL 1.16 drops the key without a word: max_length alone cuts", {});
  keys.take("max_prompt_length");
  if (keys.flag("padding_free", false))
    keys.warn("padding_free", "ignored-key", "DPOTrainer of TRL 1.16 turns it off", "remove it");
  if (keys.flag("precompute_ref_log_probs", false)) recipe.reference = "none";
  recipe.assumed.emplace_back(
      "every sequence has max_length tokens, each scored (--prompt N leaves out the first N "
      "tokens)");
}

void read_policy(Keys& keys, Recipe& recipe) {
  const std::int64_t completion = keys.count("max_completion_length", default_completion);
  if (!keys.has("max_prompt_length"))
    recipe.assumed.push_back(fmt::format(
        "prompts of {} tokens, which the file does not say (--seq, --prompt)", former_prompt));
  recipe.prompt = keys.count("max_prompt_length", former_prompt);
  recipe.length = *recipe.prompt + completion;
  recipe.loss = "grpo";
  const bool compares = keys.number("beta", 0) != 0;
  if (!compares)
    recipe.reference = "none";
  else
    recipe.reference = recipe.adapter.is_null() ? "copy" : "adapter-off";
  recipe.assumed.emplace_back(
      "GRPO's step on completions that are there: their generation is left out");
}

/// Keys of earlier releases, which TrlParser drops without a word.
void warn_of_former_keys(Keys& keys) {
  constexpr std::pair<std::string_view, std::string_view> renamed[] = {
      {"torch_dtype", "dtype"}, {"max_seq_length", "max_length"}};
  for (const auto& [former, now] : renamed) {
    if (!keys.has(former)) continue;
    const std::string given = keys.take(former).str();
    if (keys.has(now)) continue;
    keys.warn(former, "ignored-key",
              fmt::format("TRL 1.16 drops the key without a word: {} is {}", now,
                          now == "dtype" ? "float32" : std::to_string(default_length)),
              fmt::format("write {}: {}", now, given));
  }
}

std::string quantization_of(Keys& keys, std::string_view dtype) {
  const bool is_4bit = keys.flag("load_in_4bit", false);
  const bool is_8bit = keys.flag("load_in_8bit", false);
  const std::string type = keys.text("bnb_4bit_quant_type", "nf4");
  const bool nested = keys.flag("use_bnb_nested_quant", false);
  const std::string storage = keys.text("bnb_4bit_quant_storage", "");
  if (is_4bit && is_8bit)
    throw keys.error("load_in_8bit", "cannot be set together with load_in_4bit", "remove one");
  if (is_8bit) return "int8";
  if (!is_4bit) return {};
  if (type != "nf4" && type != "fp4")
    throw keys.error("bnb_4bit_quant_type", fmt::format("\"{}\" is none of nf4, fp4", type),
                     "write nf4");
  return fmt::format("{}{},compute={}{}", type, nested ? ",double" : "", dtype,
                     storage.empty() ? "" : ",storage=" + storage);
}

/// disable_dropout_in_model takes the adapter's dropout away, too.
void read_adapter(Keys& keys, Trainer trainer, Recipe& recipe) {
  const bool drops = !keys.flag("disable_dropout", trainer == Trainer::dpo);
  const bool uses = keys.flag("use_peft", false);
  LoraArguments lora{.rank = keys.count("lora_r", 16),
                     .alpha = keys.number("lora_alpha", 32),
                     .dropout = drops * keys.number("lora_dropout", 0.05),
                     .targets = keys.names("lora_target_modules"),
                     .target_parameters = keys.names("lora_target_parameters"),
                     .modules_to_save = keys.names("lora_modules_to_save"),
                     .rank_stabilized = keys.flag("use_rslora", false),
                     .dora = keys.flag("use_dora", false)};
  lora.all_linear = lora.targets == std::vector<std::string>{"all-linear"};
  if (uses) recipe.adapter = adapter_of(lora);
}

/// SFTConfig.__post_init__: bf16 unless fp16 is asked for; gradient checkpointing.
void add_defaults(Keys& keys, ConfigValue& arguments) {
  const bool fp16 = arguments.get("fp16").truthy();
  if (!arguments.has("bf16")) arguments.set("bf16", !fp16);
  if (!arguments.has("gradient_checkpointing")) arguments.set("gradient_checkpointing", true);
  keys.take("bf16");
}

/// Liger's loss would take the place of TRL's head, which the trainers refuse.
void keep_fused_head(const Keys& keys, ConfigValue& arguments) {
  if (!arguments.get("use_liger_kernel").truthy()) return;
  ConfigValue kernels = arguments.get("liger_kernel_config");
  if (kernels.get("fused_linear_cross_entropy").truthy())
    throw keys.error("liger_kernel_config",
                     "fused_linear_cross_entropy: true takes the place of TRL's own head, which "
                     "TRL 1.16 refuses",
                     "remove it");
  if (!kernels.is_dict()) kernels = ConfigValue::dict();
  kernels.set("fused_linear_cross_entropy", false);
  arguments.set("liger_kernel_config", std::move(kernels));
}

std::string attention_of(Keys& keys) {
  const std::string given = keys.text("attn_implementation", "");
  return given.starts_with("flash_attention") ? "flash" : given == "eager" ? "eager" : "";
}

}  // namespace

Recipe read_trl(const ConfigValue& value, const std::string& file) {
  Keys keys(value, file);
  refuse_other_trainers(keys);
  warn_of_former_keys(keys);
  const Trainer trainer = trainer_of(keys);
  Recipe recipe;
  recipe.model = keys.text("model_name_or_path", "");
  const std::string dtype = keys.text("dtype", "float32");
  if (dtype != "auto") recipe.base_dtype = parse_dtype(dtype, file + ": dtype");
  recipe.quantization = quantization_of(keys, dtype == "auto" ? "bfloat16" : dtype);
  if (!recipe.quantization.empty()) recipe.trainable_dtype = Dtype::bfloat16;
  recipe.keeps_magnitudes = true;
  read_adapter(keys, trainer, recipe);
  recipe.attention = attention_of(keys);
  if (keys.has("accelerate_config"))
    keys.warn("accelerate_config", "other-file", "names a file of accelerate, which is not read",
              "give it as --accelerate FILE");
  keys.take("accelerate_config");
  if (keys.has("num_processes")) recipe.world = keys.count("num_processes", 1);
  recipe.training_arguments = ConfigValue::dict();
  take_training_arguments(keys, recipe.training_arguments);
  add_defaults(keys, recipe.training_arguments);
  if (trainer == Trainer::grpo)
    read_policy(keys, recipe);
  else if (trainer == Trainer::dpo)
    read_preference(keys, recipe);
  else
    read_supervised(keys, recipe);
  keep_fused_head(keys, recipe.training_arguments);
  std::vector<std::string_view> idle(std::begin(no_bearing), std::end(no_bearing));
  if (trainer != Trainer::sft)
    idle.insert(idle.end(), std::begin(no_bearing_of_others), std::end(no_bearing_of_others));
  keys.finish(left_out, idle, trainer_keys(), "TRL 1.16");
  recipe.findings = keys.take_findings();
  return recipe;
}

}  // namespace shardscope::recipes
