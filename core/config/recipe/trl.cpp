#include <fmt/format.h>

#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"

namespace shardscope::recipes {
namespace {

constexpr std::int64_t default_length = 1024;  // SFTConfig.max_length

constexpr LeftOut left_out[] = {
    {"activation_offloading", "activations in host memory need less device memory"},
    {"lora_target_parameters", "adapters on parameters of experts are left out"},
    {"padding_free", "batches without padding hold fewer tokens than is predicted"},
    {"router_aux_loss_coef", "the loss of the router is left out"},
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
                                           "packing_strategy",
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

/// Of DPO, KTO, ORPO, GRPO and reward models.
constexpr std::string_view other_trainers[] = {"beta",
                                               "max_prompt_length",
                                               "precompute_ref_log_probs",
                                               "num_generations",
                                               "reward_funcs",
                                               "sync_ref_model",
                                               "max_completion_length",
                                               "desirable_weight",
                                               "undesirable_weight"};

void refuse_other_trainers(const Keys& keys) {
  for (const std::string_view key : other_trainers)
    if (keys.has(key))
      throw keys.error(
          key, "belongs to DPO, KTO, GRPO or a reward model, which are not modelled",
          "supervised fine-tuning (SFT) is; a DPO step needs more memory than its SFT");
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

void read_adapter(Keys& keys, Recipe& recipe) {
  const bool uses = keys.flag("use_peft", false);
  LoraArguments lora{.rank = keys.count("lora_r", 16),
                     .alpha = keys.number("lora_alpha", 32),
                     .dropout = keys.number("lora_dropout", 0.05),
                     .targets = keys.names("lora_target_modules"),
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

std::string attention_of(Keys& keys) {
  const std::string given = keys.text("attn_implementation", "");
  return given.starts_with("flash_attention") ? "flash" : given == "eager" ? "eager" : "";
}

}  // namespace

Recipe read_trl(const ConfigValue& value, const std::string& file) {
  Keys keys(value, file);
  refuse_other_trainers(keys);
  warn_of_former_keys(keys);
  Recipe recipe;
  recipe.model = keys.text("model_name_or_path", "");
  const std::string dtype = keys.text("dtype", "float32");
  if (dtype != "auto") recipe.base_dtype = parse_dtype(dtype, file + ": dtype");
  recipe.quantization = quantization_of(keys, dtype == "auto" ? "bfloat16" : dtype);
  if (!recipe.quantization.empty()) recipe.trainable_dtype = Dtype::bfloat16;
  read_adapter(keys, recipe);
  recipe.length = keys.count("max_length", default_length);
  if (!keys.flag("packing", false))
    recipe.assumed.emplace_back("every sequence has max_length tokens");
  recipe.attention = attention_of(keys);
  if (const std::string loss = keys.text("loss_type", "nll"); loss != "nll")
    keys.warn("loss_type", "not-modelled",
              fmt::format("the loss \"{}\" is not modelled: the logits are taken whole", loss), {});
  if (keys.has("accelerate_config"))
    keys.warn("accelerate_config", "other-file", "names a file of accelerate, which is not read",
              "give it as --accelerate FILE");
  keys.take("accelerate_config");
  if (keys.has("num_processes")) recipe.world = keys.count("num_processes", 1);
  recipe.training_arguments = ConfigValue::dict();
  take_training_arguments(keys, recipe.training_arguments);
  add_defaults(keys, recipe.training_arguments);
  keys.finish(left_out, no_bearing, trainer_keys(), "TRL 1.16");
  recipe.findings = keys.take_findings();
  return recipe;
}

}  // namespace shardscope::recipes
