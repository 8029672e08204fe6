// The keys that each tool's file has for a PortableRecipe. The names are those that the readers of
// core/config/recipe take.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/convert/portable_recipe.h"
#include "core/config/trainer/training_args_fields.h"
#include "core/config/values/config_json.h"
#include "core/config/yaml/yaml_writer.h"

namespace shardscope {
namespace {

/// "nf4,double,compute=bfloat16,storage=bfloat16".
struct QuantizationWords {
  bool is_4bit = false, is_8bit = false, twice = false;
  std::string type, compute, storage;
};

QuantizationWords words_of(std::string_view text) {
  QuantizationWords words;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (word == "int8") words.is_8bit = true;
    if (word == "nf4" || word == "fp4") words.is_4bit = true, words.type = word;
    if (word == "double") words.twice = true;
    if (word.starts_with("compute=")) words.compute = word.substr(word.find('=') + 1);
    if (word.starts_with("storage=")) words.storage = word.substr(word.find('=') + 1);
  }
  return words;
}

bool is_all_linear(const ConfigValue& adapter) {
  return adapter.get("target_modules").is("all-linear");
}

/// Of tools that adapt every linear layer where no layers are named.
void require_layers(const ConfigValue& adapter, RecipeTool tool) {
  if (adapter.get("target_modules").truthy()) return;
  throw Error({.where = tool == RecipeTool::ms_swift ? "--to ms-swift" : "--to llama-factory",
               .what = fmt::format("the adapter names no layers, and {} would adapt every linear "
                                   "layer",
                                   name_of(tool)),
               .way_out = "name layers beside its parameters, or convert to TRL or axolotl"});
}

/// Of DPO with a reference model. Source: TRL 1.16.0, trainer/dpo_trainer.py; ms-swift 3602360,
/// rlhf_trainers/dpo_trainer.py, which lacks the last.
constexpr std::string_view trl_losses[] = {"sigmoid",  "hinge",        "ipo",         "exo_pair",
                                           "nca_pair", "robust",       "bco_pair",    "sppo_hard",
                                           "aot",      "aot_unpaired", "apo_zero",    "apo_down",
                                           "discopop", "sft",          "sigmoid_norm"};
constexpr std::span ms_swift_losses = std::span(trl_losses).first(std::size(trl_losses) - 1);
/// Source: LLaMA-Factory ff6d4d1, hparams/finetuning_args.py.
constexpr std::string_view llama_factory_losses[] = {"sigmoid",  "hinge", "ipo",
                                                     "kto_pair", "orpo",  "simpo"};

/// None where one of them is not known: all tools train with sigmoid then.
ConfigValue::List losses_of(const PortableRecipe& recipe, std::span<const std::string_view> known) {
  ConfigValue::List losses;
  std::string_view rest = recipe.preference_loss;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, comma);
    if (std::ranges::find(known, name) == known.end()) return {};
    losses.emplace_back(std::string(name));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return losses;
}

/// TRL and ms-swift take several.
void set_losses(ConfigValue::List losses, ConfigValue& keys) {
  const bool usual = losses.size() == 1 && losses.front().is("sigmoid");
  if (!losses.empty() && !usual) keys.set("loss_type", ConfigValue(std::move(losses)));
}

void set_if(ConfigValue& keys, std::string_view key, const ConfigValue& value) {
  if (!value.is_null()) keys.set(key, value);
}

/// What the three tools around the Trainer have by its own names.
void set_trainer(const PortableRecipe& recipe, ConfigValue& keys) {
  keys.set("per_device_train_batch_size", recipe.batch);
  keys.set("gradient_accumulation_steps", recipe.micro_batches);
  if (recipe.optimizer != "muon") keys.set("optim", recipe.optimizer);
  keys.set("max_grad_norm", recipe.clip);
  for (const ConfigValue::Entry& entry : recipe.trainer.entries()) keys.set(entry.key, entry.value);
}

void set_checkpointing(const PortableRecipe& recipe, ConfigValue& keys) {
  keys.set("gradient_checkpointing", recipe.checkpoints);
  if (recipe.checkpoints && recipe.reentrant)
    keys.set("gradient_checkpointing_kwargs",
             ConfigValue::dict({{"use_reentrant", *recipe.reentrant}}));
}

void set_autocast(const PortableRecipe& recipe, ConfigValue& keys) {
  keys.set("bf16", recipe.autocast == "bf16");
  keys.set("fp16", recipe.autocast == "fp16");
}

/// LLaMA-Factory, TRL and ms-swift take a whole number only.
ConfigValue whole(const ConfigValue& number) {
  constexpr double largest = 1 << 30;
  if (!number.is_number() || !(number.number() > -largest && number.number() < largest))
    return number;
  const auto rounded = static_cast<std::int64_t>(number.number());
  return static_cast<double>(rounded) == number.number() ? ConfigValue(rounded) : number;
}

void set_rank(const ConfigValue& adapter, std::string_view rank_key, ConfigValue& keys) {
  keys.set(rank_key, adapter.get("r"));
  keys.set("lora_alpha", whole(adapter.get("lora_alpha")));
  keys.set("lora_dropout", adapter.get("lora_dropout"));
}

/// What else LLaMA-Factory casts to float32. Under ZeRO-3 it casts nothing and refuses pure_bf16
/// (hparams/parser.py). A whole model of which no dtype is known is taken for one in bfloat16.
bool trains_in_bfloat16(const PortableRecipe& recipe) {
  if (recipe.autocast == "fp16" || names_zero3(recipe.trainer.get("deepspeed"))) return false;
  if (recipe.adapter.is_null())
    return recipe.base_dtype.value_or(Dtype::bfloat16) == Dtype::bfloat16;
  return recipe.autocast == "no" && recipe.base_dtype == Dtype::bfloat16;
}

ConfigValue as_llama_factory(const PortableRecipe& recipe) {
  ConfigValue keys =
      ConfigValue::dict({{"model_name_or_path", recipe.model},
                         {"stage", recipe.prefers ? "dpo" : "sft"},
                         {"do_train", true},
                         {"finetuning_type", recipe.adapter.is_null() ? "full" : "lora"}});
  if (!recipe.adapter.is_null()) {
    require_layers(recipe.adapter, RecipeTool::llama_factory);
    set_rank(recipe.adapter, "lora_rank", keys);
    const ConfigValue targets = recipe.adapter.get("target_modules");
    keys.set("lora_target", is_all_linear(recipe.adapter) ? ConfigValue("all") : targets);
    set_if(keys, "additional_target", recipe.adapter.get("modules_to_save"));
    set_if(keys, "use_rslora", recipe.adapter.get("use_rslora"));
    set_if(keys, "use_dora", recipe.adapter.get("use_dora"));
  }
  if (const QuantizationWords words = words_of(recipe.quantization);
      words.is_4bit || words.is_8bit) {
    keys.set("quantization_bit", words.is_4bit ? 4 : 8);
    keys.set("quantization_method", "bnb");
    if (words.is_4bit) keys.set("quantization_type", words.type);
    if (words.is_4bit) keys.set("double_quantization", words.twice);
  }
  set_if(keys, "cutoff_len", recipe.length ? ConfigValue(*recipe.length) : ConfigValue());
  keys.set("packing", recipe.packs);
  if (recipe.attention == "flash") keys.set("flash_attn", "fa2");
  if (recipe.attention == "eager") keys.set("flash_attn", "disabled");
  if (!recipe.liger.empty()) keys.set("enable_liger_kernel", true);
  set_autocast(recipe, keys);
  if (trains_in_bfloat16(recipe)) keys.set("pure_bf16", true);
  keys.set("disable_gradient_checkpointing", !recipe.checkpoints);
  if (recipe.checkpoints && recipe.reentrant) keys.set("use_reentrant_gc", *recipe.reentrant);
  if (recipe.prefers && recipe.beta) keys.set("pref_beta", *recipe.beta);
  if (const auto losses = losses_of(recipe, llama_factory_losses);
      losses.size() == 1 && !losses.front().is("sigmoid"))
    keys.set("pref_loss", losses.front());
  if (recipe.optimizer == "muon") keys.set("use_muon", true);
  set_trainer(recipe, keys);
  return keys;
}

ConfigValue as_trl(const PortableRecipe& recipe) {
  ConfigValue keys =
      ConfigValue::dict({{"model_name_or_path", recipe.model},
                         {"dtype", recipe.base_dtype ? ConfigValue(name_of(*recipe.base_dtype))
                                                     : ConfigValue("auto")}});
  if (!recipe.adapter.is_null()) {
    keys.set("use_peft", true);
    set_rank(recipe.adapter, "lora_r", keys);
    set_if(keys, "lora_target_modules", recipe.adapter.get("target_modules"));
    set_if(keys, "lora_target_parameters", recipe.adapter.get("target_parameters"));
    set_if(keys, "lora_modules_to_save", recipe.adapter.get("modules_to_save"));
    set_if(keys, "use_rslora", recipe.adapter.get("use_rslora"));
    set_if(keys, "use_dora", recipe.adapter.get("use_dora"));
  }
  const QuantizationWords words = words_of(recipe.quantization);
  if (words.is_8bit) keys.set("load_in_8bit", true);
  if (words.is_4bit) {
    keys.set("load_in_4bit", true);
    keys.set("bnb_4bit_quant_type", words.type);
    keys.set("use_bnb_nested_quant", words.twice);
    if (!words.storage.empty()) keys.set("bnb_4bit_quant_storage", words.storage);
  }
  set_if(keys, "max_length", recipe.length ? ConfigValue(*recipe.length) : ConfigValue());
  if (!recipe.prefers) keys.set("packing", recipe.packs);
  // Without a key of its own a file for DPO would be read as one for SFT.
  constexpr double usual_beta = 0.1;
  if (recipe.prefers) keys.set("beta", recipe.beta.value_or(usual_beta));
  ConfigValue::List losses = losses_of(recipe, trl_losses);
  // ORPO and SimPO, which TRL's DPO lacks, have none for another reason.
  if (recipe.reference == "none" && !losses.empty()) keys.set("precompute_ref_log_probs", true);
  set_losses(std::move(losses), keys);
  if (recipe.attention == "flash") keys.set("attn_implementation", "flash_attention_2");
  if (recipe.attention == "eager") keys.set("attn_implementation", "eager");
  if (!recipe.liger.empty()) keys.set("use_liger_kernel", true);
  set_autocast(recipe, keys);
  set_checkpointing(recipe, keys);
  set_trainer(recipe, keys);
  // TrlParser takes it as `trl sft --num_processes N` does.
  if (recipe.world) keys.set("num_processes", *recipe.world);
  // transformers 5, which TRL 1.16 asks for: a share of the steps is a warmup_steps below 1.
  const ConfigValue ratio = keys.get("warmup_ratio");
  if (ratio.is_number() && ratio.number() > 0) keys.set("warmup_steps", ratio);
  for (const ConfigValue::Entry& entry : recipe.trainer.entries())
    if (!find_training_argument(entry.key)) keys.erase(entry.key);
  return keys;
}

void set_axolotl_kernels(const PortableRecipe& recipe, ConfigValue& keys) {
  constexpr std::pair<std::string_view, std::string_view> switches[] = {
      {"rope", "liger_rope"},
      {"rms_norm", "liger_rms_norm"},
      {"swiglu", "liger_glu_activation"},
      {"fused_linear_cross_entropy", "liger_fused_linear_cross_entropy"}};
  ConfigValue::List plugins;
  if (!recipe.liger.empty()) {
    plugins.emplace_back("axolotl.integrations.liger.LigerPlugin");
    for (const auto& [name, key] : switches)
      if (recipe.liger == "on" || recipe.liger.find(name) != std::string::npos) keys.set(key, true);
  }
  if (recipe.loss == "cut")
    plugins.emplace_back("axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin");
  if (!plugins.empty()) keys.set("plugins", ConfigValue(std::move(plugins)));
}

/// Arguments of the Trainer that axolotl's files have by the same name. Source: axolotl 067b021,
/// utils/schemas and integrations.
constexpr std::string_view axolotl_arguments[] = {"accelerator_config",
                                                  "activation_checkpointing",
                                                  "adam_beta1",
                                                  "adam_beta2",
                                                  "adam_epsilon",
                                                  "auto_find_batch_size",
                                                  "dataloader_drop_last",
                                                  "dataloader_num_workers",
                                                  "dataloader_pin_memory",
                                                  "dataloader_prefetch_factor",
                                                  "ddp_broadcast_buffers",
                                                  "ddp_bucket_cap_mb",
                                                  "ddp_find_unused_parameters",
                                                  "ddp_timeout",
                                                  "deepspeed",
                                                  "eval_steps",
                                                  "eval_strategy",
                                                  "fsdp",
                                                  "fsdp_config",
                                                  "greater_is_better",
                                                  "group_by_length",
                                                  "hub_model_id",
                                                  "hub_revision",
                                                  "hub_strategy",
                                                  "include_tokens_per_second",
                                                  "learning_rate",
                                                  "load_best_model_at_end",
                                                  "logging_steps",
                                                  "lr_scheduler_kwargs",
                                                  "max_steps",
                                                  "metric_for_best_model",
                                                  "neftune_noise_alpha",
                                                  "optim_args",
                                                  "optim_target_modules",
                                                  "output_dir",
                                                  "remove_unused_columns",
                                                  "resume_from_checkpoint",
                                                  "save_only_model",
                                                  "save_safetensors",
                                                  "save_steps",
                                                  "save_strategy",
                                                  "save_total_limit",
                                                  "seed",
                                                  "tf32",
                                                  "torch_compile",
                                                  "torch_compile_backend",
                                                  "torch_compile_mode",
                                                  "torch_empty_cache_steps",
                                                  "trackio_space_id",
                                                  "warmup_ratio",
                                                  "warmup_steps",
                                                  "weight_decay"};

/// The Trainer's arguments under axolotl's names, and its own place for FSDP's version.
void set_axolotl_trainer(const PortableRecipe& recipe, ConfigValue& keys) {
  for (const ConfigValue::Entry& entry : recipe.trainer.entries()) {
    if (entry.key == "num_train_epochs")
      keys.set("num_epochs", entry.value);
    else if (entry.key == "lr_scheduler_type")
      keys.set("lr_scheduler", entry.value);
    else if (entry.key == "per_device_eval_batch_size")
      keys.set("eval_batch_size", entry.value);
    else if (std::ranges::find(axolotl_arguments, entry.key) != std::end(axolotl_arguments))
      keys.set(entry.key, entry.value);
  }
  ConfigValue options = keys.get("fsdp_config");
  if (!options.is_dict()) return;
  for (const char* name : {"version", "fsdp_version"}) {
    set_if(keys, "fsdp_version", options.get(name));
    options.erase(name);
  }
  keys.set("fsdp_config", std::move(options));
}

ConfigValue as_axolotl(const PortableRecipe& recipe) {
  if (recipe.prefers)
    throw Error({.where = "--to axolotl",
                 .what = "preference training of axolotl is not modelled",
                 .way_out = "convert to LLaMA-Factory, TRL or ms-swift"});
  ConfigValue keys = ConfigValue::dict({{"base_model", recipe.model}});
  const QuantizationWords words = words_of(recipe.quantization);
  if (!recipe.adapter.is_null()) {
    keys.set("adapter", words.is_4bit ? "qlora" : "lora");
    set_rank(recipe.adapter, "lora_r", keys);
    if (is_all_linear(recipe.adapter))
      keys.set("lora_target_linear", true);
    else if (const ConfigValue targets = recipe.adapter.get("target_modules"); targets.truthy())
      keys.set("lora_target_modules", targets);
    set_if(keys, "lora_target_parameters", recipe.adapter.get("target_parameters"));
    set_if(keys, "lora_modules_to_save", recipe.adapter.get("modules_to_save"));
    set_if(keys, "peft_use_rslora", recipe.adapter.get("use_rslora"));
    set_if(keys, "peft_use_dora", recipe.adapter.get("use_dora"));
    set_if(keys, "lora_rank_pattern", recipe.adapter.get("rank_pattern"));
  }
  if (words.is_4bit) keys.set("load_in_4bit", true);
  if (words.is_8bit) keys.set("load_in_8bit", true);
  set_if(keys, "sequence_len", recipe.length ? ConfigValue(*recipe.length) : ConfigValue());
  keys.set("sample_packing", recipe.packs);
  if (recipe.attention == "flash") keys.set("attn_implementation", "flash_attention_2");
  if (recipe.attention == "eager") keys.set("attn_implementation", "eager");
  set_axolotl_kernels(recipe, keys);
  set_autocast(recipe, keys);
  if (recipe.autocast == "no" && recipe.base_dtype == Dtype::bfloat16) keys.set("bfloat16", true);
  if (recipe.autocast == "no" && recipe.base_dtype == Dtype::float16) keys.set("float16", true);
  keys.set("micro_batch_size", recipe.batch);
  keys.set("gradient_accumulation_steps", recipe.micro_batches);
  keys.set("optimizer", recipe.optimizer);
  keys.set("max_grad_norm", recipe.clip);
  set_checkpointing(recipe, keys);
  set_axolotl_trainer(recipe, keys);
  return keys;
}

ConfigValue as_ms_swift(const PortableRecipe& recipe) {
  ConfigValue keys = ConfigValue::dict({{"model", recipe.model}});
  if (recipe.prefers) keys.set("rlhf_type", "dpo");
  if (recipe.prefers && recipe.beta) keys.set("beta", *recipe.beta);
  set_losses(losses_of(recipe, ms_swift_losses), keys);
  keys.set("tuner_type", recipe.adapter.is_null() ? "full" : "lora");
  if (recipe.base_dtype) keys.set("torch_dtype", name_of(*recipe.base_dtype));
  if (!recipe.adapter.is_null()) {
    require_layers(recipe.adapter, RecipeTool::ms_swift);
    set_rank(recipe.adapter, "lora_rank", keys);
    const ConfigValue targets = recipe.adapter.get("target_modules");
    if (targets.is_string() && !targets.is("all-linear"))
      keys.set("target_regex", targets);
    else
      keys.set("target_modules", targets);
    set_if(keys, "target_parameters", recipe.adapter.get("target_parameters"));
    set_if(keys, "modules_to_save", recipe.adapter.get("modules_to_save"));
    set_if(keys, "use_rslora", recipe.adapter.get("use_rslora"));
    set_if(keys, "use_dora", recipe.adapter.get("use_dora"));
    set_if(keys, "lora_bias", recipe.adapter.get("bias"));
  }
  if (const QuantizationWords words = words_of(recipe.quantization);
      words.is_4bit || words.is_8bit) {
    keys.set("quant_method", "bnb");
    keys.set("quant_bits", words.is_4bit ? 4 : 8);
    if (words.is_4bit) {
      keys.set("bnb_4bit_quant_type", words.type);
      keys.set("bnb_4bit_use_double_quant", words.twice);
      if (!words.compute.empty()) keys.set("bnb_4bit_compute_dtype", words.compute);
      if (!words.storage.empty()) keys.set("bnb_4bit_quant_storage", words.storage);
    }
  }
  set_if(keys, "max_length", recipe.length ? ConfigValue(*recipe.length) : ConfigValue());
  keys.set("packing", recipe.packs);
  if (recipe.attention == "flash") keys.set("attn_impl", "flash_attention_2");
  if (recipe.attention == "eager") keys.set("attn_impl", "eager");
  if (!recipe.liger.empty()) keys.set("use_liger_kernel", true);
  set_autocast(recipe, keys);
  set_checkpointing(recipe, keys);
  if (recipe.optimizer == "muon") keys.set("optimizer", "muon");
  set_trainer(recipe, keys);
  // transformers 5, which ms-swift 4 runs with, has it no longer.
  keys.erase("overwrite_output_dir");
  return keys;
}

/// A word of the shell.
std::string quoted(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string words_of(const ConfigValue& value) {
  if (value.is_boolean()) return value.boolean() ? "true" : "false";
  if (value.is_dict()) return quoted(json_text(value));
  if (!value.is_list()) return quoted(value.str());
  std::string words;
  for (const ConfigValue& element : value.elements())
    words += (words.empty() ? "" : " ") + words_of(element);
  return words;
}

std::string ms_swift_script(const ConfigValue& keys, const PortableRecipe& recipe) {
  std::string text = "#!/usr/bin/env bash\n";
  if (recipe.world) text += fmt::format("NPROC_PER_NODE={} \\\n", *recipe.world);
  text += recipe.prefers ? "swift rlhf" : "swift sft";
  for (const ConfigValue::Entry& entry : keys.entries())
    if (!entry.value.is_null())
      text += fmt::format(" \\\n    --{} {}", entry.key, words_of(entry.value));
  return text + "\n";
}

}  // namespace

ConfigValue written(const PortableRecipe& recipe, RecipeTool tool) {
  switch (tool) {
    case RecipeTool::llama_factory:
      return as_llama_factory(recipe);
    case RecipeTool::trl:
      return as_trl(recipe);
    case RecipeTool::axolotl:
      return as_axolotl(recipe);
    case RecipeTool::ms_swift:
      return as_ms_swift(recipe);
    default:
      throw Error({.where = "--to",
                   .what = fmt::format("files of {} are read here, not written", name_of(tool)),
                   .way_out = "give llama-factory, trl, axolotl or ms-swift"});
  }
}

std::string text_of(const ConfigValue& keys, const PortableRecipe& recipe, RecipeTool tool) {
  return tool == RecipeTool::ms_swift ? ms_swift_script(keys, recipe) : yaml_text(keys);
}

std::string file_of(RecipeTool tool) {
  return tool == RecipeTool::ms_swift ? "written.sh" : "written.yaml";
}

}  // namespace shardscope
