#include "core/config/convert/portable_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/config/recipe/command_line.h"
#include "core/config/recipe/recipe_keys.h"
#include "core/config/trainer/training_args_fields.h"

namespace shardscope {
namespace {

constexpr std::pair<std::string_view, RecipeTool> written_tools[] = {
    {"llama-factory", RecipeTool::llama_factory},
    {"trl", RecipeTool::trl},
    {"axolotl", RecipeTool::axolotl},
    {"ms-swift", RecipeTool::ms_swift}};

/// Keys that PortableRecipe has, by tool. "train.epochs" is a key of a section.
constexpr std::string_view llama_factory_keys[] = {"model_name_or_path",
                                                   "stage",
                                                   "do_train",
                                                   "finetuning_type",
                                                   "lora_rank",
                                                   "lora_alpha",
                                                   "lora_dropout",
                                                   "lora_target",
                                                   "additional_target",
                                                   "use_rslora",
                                                   "use_dora",
                                                   "quantization_bit",
                                                   "quantization_type",
                                                   "quantization_method",
                                                   "double_quantization",
                                                   "cutoff_len",
                                                   "packing",
                                                   "flash_attn",
                                                   "enable_liger_kernel",
                                                   "pure_bf16",
                                                   "disable_gradient_checkpointing",
                                                   "use_reentrant_gc",
                                                   "disable_dropout",
                                                   "use_muon",
                                                   "pref_beta"};
constexpr std::string_view trl_keys[] = {"model_name_or_path",
                                         "dtype",
                                         "use_peft",
                                         "lora_r",
                                         "lora_alpha",
                                         "lora_dropout",
                                         "lora_target_modules",
                                         "lora_target_parameters",
                                         "lora_modules_to_save",
                                         "use_rslora",
                                         "use_dora",
                                         "load_in_4bit",
                                         "load_in_8bit",
                                         "bnb_4bit_quant_type",
                                         "use_bnb_nested_quant",
                                         "bnb_4bit_quant_storage",
                                         "max_length",
                                         "packing",
                                         "attn_implementation",
                                         "disable_dropout",
                                         "beta",
                                         "num_processes",
                                         recipes::trl_command_key};
constexpr std::string_view axolotl_keys[] = {"base_model",
                                             "adapter",
                                             "load_in_4bit",
                                             "load_in_8bit",
                                             "lora_r",
                                             "lora_alpha",
                                             "lora_dropout",
                                             "lora_target_linear",
                                             "lora_target_modules",
                                             "lora_target_parameters",
                                             "lora_modules_to_save",
                                             "lora_rank_pattern",
                                             "peft_use_dora",
                                             "peft_use_rslora",
                                             "sequence_len",
                                             "sample_packing",
                                             "attn_implementation",
                                             "flash_attention",
                                             "eager_attention",
                                             "sdp_attention",
                                             "liger_rope",
                                             "liger_rms_norm",
                                             "liger_glu_activation",
                                             "liger_swiglu",
                                             "liger_fused_linear_cross_entropy",
                                             "cut_cross_entropy",
                                             "plugins",
                                             "float16",
                                             "bfloat16",
                                             "micro_batch_size",
                                             "batch_size",
                                             "eval_batch_size",
                                             "optimizer",
                                             "fsdp_version",
                                             "num_epochs",
                                             "lr_scheduler"};
constexpr std::string_view ms_swift_keys[] = {"model",
                                              "tuner_type",
                                              "train_type",
                                              "sft_type",
                                              "rlhf_type",
                                              "beta",
                                              "torch_dtype",
                                              "lora_rank",
                                              "lora_alpha",
                                              "lora_dropout",
                                              "target_modules",
                                              "target_regex",
                                              "target_parameters",
                                              "modules_to_save",
                                              "lora_bias",
                                              "use_rslora",
                                              "use_dora",
                                              "quant_method",
                                              "quant_bits",
                                              "bnb_4bit_compute_dtype",
                                              "bnb_4bit_quant_type",
                                              "bnb_4bit_use_double_quant",
                                              "bnb_4bit_quant_storage",
                                              "max_length",
                                              "packing",
                                              "attn_impl",
                                              "optimizer",
                                              "nproc_per_node"};
constexpr std::string_view torchtune_keys[] = {"model._component_",
                                               "model.lora_attn_modules",
                                               "model.apply_lora_to_mlp",
                                               "model.apply_lora_to_output",
                                               "model.lora_rank",
                                               "model.lora_alpha",
                                               "model.lora_dropout",
                                               "model.use_dora",
                                               "model.quantize_base",
                                               "tokenizer.max_seq_len",
                                               "checkpointer.checkpoint_dir",
                                               "optimizer._component_",
                                               "optimizer.fused",
                                               "optimizer.lr",
                                               "optimizer.weight_decay",
                                               "dataset.packed",
                                               "batch_size",
                                               "gradient_accumulation_steps",
                                               "clip_grad_norm",
                                               "enable_activation_checkpointing",
                                               "dtype",
                                               "epochs",
                                               "seed",
                                               "output_dir"};
constexpr std::string_view litgpt_keys[] = {"checkpoint_dir",
                                            "out_dir",
                                            "precision",
                                            "quantize",
                                            "devices",
                                            "num_nodes",
                                            "lora_r",
                                            "lora_alpha",
                                            "lora_dropout",
                                            "lora_query",
                                            "lora_key",
                                            "lora_value",
                                            "lora_projection",
                                            "lora_mlp",
                                            "lora_head",
                                            "seed",
                                            "train.micro_batch_size",
                                            "train.global_batch_size",
                                            "train.max_seq_length",
                                            "train.epochs",
                                            "train.max_steps",
                                            "train.lr_warmup_steps",
                                            "optimizer.class_path",
                                            "optimizer.init_args"};

std::span<const std::string_view> keys_of(RecipeTool tool) {
  switch (tool) {
    case RecipeTool::llama_factory:
      return llama_factory_keys;
    case RecipeTool::trl:
      return trl_keys;
    case RecipeTool::axolotl:
      return axolotl_keys;
    case RecipeTool::ms_swift:
      return ms_swift_keys;
    case RecipeTool::torchtune:
      return torchtune_keys;
    case RecipeTool::litgpt:
      return litgpt_keys;
    case RecipeTool::torchtitan:
      return {};
  }
  return {};
}

constexpr std::string_view data_keys[] = {"dataset",
                                          "datasets",
                                          "dataset_dir",
                                          "dataset_name",
                                          "dataset_config",
                                          "dataset_mixture",
                                          "dataset_prepared_path",
                                          "dataset_train_split",
                                          "dataset_test_split",
                                          "eval_dataset",
                                          "test_datasets",
                                          "val_dataset",
                                          "val_set_size",
                                          "val_size",
                                          "split_dataset_ratio",
                                          "data",
                                          "template",
                                          "chat_template",
                                          "max_samples"};

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool has_trainer(RecipeTool tool) {
  return tool != RecipeTool::torchtune && tool != RecipeTool::litgpt;
}

/// Names that axolotl has for arguments of the Trainer.
constexpr std::pair<std::string_view, std::string_view> axolotl_names[] = {
    {"num_train_epochs", "num_epochs"}, {"lr_scheduler_type", "lr_scheduler"}};

/// Arguments that are fields of PortableRecipe.
constexpr std::string_view fields_of_recipe[] = {"per_device_train_batch_size",
                                                 "gradient_accumulation_steps",
                                                 "max_grad_norm",
                                                 "optim",
                                                 "bf16",
                                                 "fp16",
                                                 "gradient_checkpointing",
                                                 "gradient_checkpointing_kwargs",
                                                 "use_liger_kernel",
                                                 "liger_kernel_config"};

bool is_trainer_key(std::string_view key) { return among(recipes::trainer_keys(), key); }

void leave_out(const ConfigValue& value, const std::string& section, RecipeTool tool,
               std::vector<Loss>& left_out) {
  for (const ConfigValue::Entry& entry : value.entries()) {
    if (entry.value.is_null()) continue;
    const std::string path = section.empty() ? entry.key : section + "." + entry.key;
    const auto is_below = [&](std::string_view key) { return key.starts_with(path + "."); };
    if (among(keys_of(tool), path)) continue;
    if (section.empty() && has_trainer(tool) && is_trainer_key(entry.key)) continue;
    if (entry.value.is_dict() && std::ranges::any_of(keys_of(tool), is_below)) {
      leave_out(entry.value, path, tool, left_out);
      continue;
    }
    const bool names_data = among(data_keys, entry.key) || path.starts_with("dataset.");
    left_out.push_back(
        {.key = path,
         .why = names_data ? std::string("every tool names data and templates in its own way")
                           : std::string("is not carried over")});
  }
}

/// A value that another tool's default must not replace.
ConfigValue stated(const ConfigValue& arguments, std::string_view name) {
  if (const ConfigValue* value = arguments.find(name); value && !value->is_null()) return *value;
  const TrainingArgumentField* field = find_training_argument(name);
  return field ? field->otherwise : ConfigValue();
}

std::int64_t integer_of(const ConfigValue& value, std::int64_t otherwise) {
  return value.is_integer() ? value.integer() : otherwise;
}

double number_of(const ConfigValue& value, double otherwise) {
  return value.is_number() ? value.number() : otherwise;
}

/// The Trainer's arguments that no field has: those that decide a step, and the others as the file
/// has them.
void take_trainer(const Recipe& recipe, const ConfigValue& value, RecipeTool tool,
                  PortableRecipe& portable) {
  const ConfigValue& arguments = recipe.training_arguments;
  portable.batch = integer_of(stated(arguments, "per_device_train_batch_size"), 1);
  portable.micro_batches = integer_of(stated(arguments, "gradient_accumulation_steps"), 1);
  portable.optimizer = stated(arguments, "optim").str();
  portable.clip = number_of(stated(arguments, "max_grad_norm"), 1);
  portable.checkpoints = stated(arguments, "gradient_checkpointing").truthy();
  const ConfigValue reentrant = arguments.get("gradient_checkpointing_kwargs").get("use_reentrant");
  if (reentrant.is_boolean() && portable.checkpoints) portable.reentrant = reentrant.boolean();
  if (arguments.get("bf16").truthy()) portable.autocast = "bf16";
  if (arguments.get("fp16").truthy()) portable.autocast = "fp16";
  if (arguments.get("use_liger_kernel").truthy()) portable.liger = "on";
  for (const ConfigValue::Entry& entry : arguments.entries())
    if (!among(fields_of_recipe, entry.key)) portable.trainer.set(entry.key, entry.value);
  for (const ConfigValue::Entry& entry : value.entries()) {
    std::string_view name = entry.key;
    for (const auto& [trainers, axolotls] : axolotl_names)
      if (tool == RecipeTool::axolotl && name == axolotls) name = trainers;
    const bool is_known = is_trainer_key(name) && !entry.value.is_null();
    if (is_known && !among(fields_of_recipe, name) && !portable.trainer.has(name))
      portable.trainer.set(name, entry.value);
  }
}

std::string shown(const ConfigValue& value) {
  return value.is_null()     ? std::string("not set")
         : value.is_string() ? value.string()
                             : value.repr();
}

/// "1e-4" of YAML 1.1 and of a command line is a number for the tools.
ConfigValue normal(const ConfigValue& value) {
  if (value.is_list()) {
    std::string words;
    for (const ConfigValue& element : value.elements())
      words += (words.empty() ? "" : " ") + shown(element);
    return {words};
  }
  if (!value.is_string()) return value;
  double number = 0;
  const std::string& text = value.string();
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size() ? ConfigValue(number) : value;
}

constexpr std::string_view all_liger = "rope+rms_norm+swiglu+fused_linear_cross_entropy";

std::string optimizer_of(const Recipe::OwnLoop& loop, std::vector<Loss>& left_out) {
  if (loop.optimizer == "adamw" || loop.optimizer == "adam") {
    if (loop.optimizer == "adam")
      left_out.push_back({.key = "optimizer", .why = "the Trainer has no Adam: AdamW is written"});
    return loop.implementation == "fused" ? "adamw_torch_fused" : "adamw_torch";
  }
  return loop.optimizer;
}

void take_number(const ConfigValue& value, std::string_view name, ConfigValue& trainer) {
  if (const ConfigValue number = normal(value); number.is_number()) trainer.set(name, number);
}

/// Of torchtune and litgpt.
void take_own_loop(const Recipe& recipe, const ConfigValue& value, PortableRecipe& portable,
                   std::vector<Loss>& left_out) {
  const Recipe::OwnLoop& loop = *recipe.own_loop;
  portable.batch = loop.batch;
  portable.micro_batches = loop.micro_batches;
  portable.optimizer = optimizer_of(loop, left_out);
  portable.clip = loop.clip;
  portable.checkpoints = !loop.checkpointing.empty();
  if (loop.precision == "bf16_mixed") portable.autocast = "bf16";
  if (recipe.world.value_or(1) > 1 && loop.runtime.starts_with("fsdp")) {
    portable.trainer.set("fsdp", "full_shard auto_wrap");
    portable.trainer.set("fsdp_config",
                         ConfigValue::dict({{"version", loop.runtime == "fsdp2" ? 2 : 1}}));
  }
  const ConfigValue train = value.get("train"), optimizer = value.get("optimizer");
  const ConfigValue options =
      optimizer.get("init_args").is_dict() ? optimizer.get("init_args") : optimizer;
  ConfigValue& trainer = portable.trainer;
  take_number(value.get("epochs"), "num_train_epochs", trainer);
  take_number(train.get("epochs"), "num_train_epochs", trainer);
  take_number(train.get("max_steps"), "max_steps", trainer);
  take_number(train.get("lr_warmup_steps"), "warmup_steps", trainer);
  take_number(options.get("lr"), "learning_rate", trainer);
  take_number(options.get("weight_decay"), "weight_decay", trainer);
  take_number(value.get("seed"), "seed", trainer);
  for (const char* folder : {"output_dir", "out_dir"})
    if (value.get(folder).is_string()) trainer.set("output_dir", value.get(folder));
}

bool packs(const ConfigValue& value, RecipeTool tool) {
  if (tool == RecipeTool::axolotl) return value.get("sample_packing").truthy();
  if (tool == RecipeTool::torchtune) return value.get("dataset").get("packed").truthy();
  return value.get("packing").truthy();
}

std::optional<double> beta_of(const ConfigValue& value) {
  for (const char* key : {"beta", "pref_beta"})
    if (const ConfigValue beta = normal(value.get(key)); beta.is_number()) return beta.number();
  return std::nullopt;
}

/// Keys that a field has where pairs are compared, and that have no place elsewhere.
bool is_preference_key(std::string_view key, RecipeTool tool) {
  if (tool == RecipeTool::llama_factory) return key == "pref_loss";
  if (tool == RecipeTool::trl) return key == "loss_type" || key == "precompute_ref_log_probs";
  return tool == RecipeTool::ms_swift && key == "loss_type";
}

/// "sigmoid,sft", however the file has them.
std::string joined(const ConfigValue& names) {
  std::string text = names.is_string() ? names.string() : "";
  if (names.is_list())
    for (const ConfigValue& name : names.elements()) text += (text.empty() ? "" : ",") + name.str();
  std::erase(text, ' ');
  return text;
}

void take_preference(const Recipe& recipe, const ConfigValue& value, RecipeTool tool,
                     PortableRecipe& portable) {
  portable.beta = beta_of(value);
  const bool llama_factory = tool == RecipeTool::llama_factory;
  portable.preference_loss = joined(value.get(llama_factory ? "pref_loss" : "loss_type"));
  if (portable.preference_loss.empty()) portable.preference_loss = "sigmoid";
  portable.reference = recipe.reference;
  if (portable.reference.empty())
    portable.reference = recipe.adapter.is_null() ? "copy" : "adapter-off";
}

/// A file of TRL that names no layers leaves them to PEFT. The other readers have names or
/// target_parameters.
void take_adapter(const Recipe& recipe, const ConfigValue& value, RecipeTool tool,
                  PortableRecipe& portable) {
  portable.adapter = recipe.adapter;
  if (!portable.adapter.is_dict()) return;
  portable.adapter.erase("lists_linear_layers");  // follows from the tool, not from the file
  const bool leaves_to_peft = tool == RecipeTool::trl && value.get("lora_target_modules").is_null();
  if (!leaves_to_peft && portable.adapter.get("target_modules").is_null())
    portable.adapter.set("target_modules", ConfigValue::list());
}

void refuse_others(const Recipe& recipe, RecipeTool tool, const std::string& file) {
  if (tool == RecipeTool::torchtitan)
    throw Error({.where = file,
                 .what = "is a file of torchtitan, which the other tools have no counterpart of",
                 .way_out = "give a file of LLaMA-Factory, TRL, axolotl, ms-swift, torchtune or "
                            "litgpt"});
  if (recipe.loss == "grpo")
    throw Error({.where = file,
                 .what = "GRPO is not converted",
                 .way_out = "supervised fine-tuning and DPO are"});
}

/// Which layers train would be another tool's choice.
void refuse_unnamed_layers(const PortableRecipe& recipe, const std::string& file, RecipeTool to) {
  if (to == RecipeTool::trl || recipe.adapter.is_null() || recipe.adapter.has("target_modules"))
    return;
  throw Error({.where = file + ": lora_target_modules",
               .what = fmt::format("is not there, so that PEFT takes its own list for the model, "
                                   "which {} does not have",
                                   name_of(to)),
               .way_out = "name the layers in lora_target_modules"});
}

std::string_view in_words(std::string_view reference) {
  if (reference == "none") return "no reference model";
  return reference == "copy" ? "a copy of the model as reference"
                             : "the model without its adapter as reference";
}

/// The two need other memory, so that naming a loss would not do.
void refuse_other_reference(const PortableRecipe& before, const PortableRecipe& after,
                            RecipeTool from, const std::string& file, RecipeTool to) {
  if (before.reference == after.reference) return;
  throw Error(
      {.where = file,
       .what = fmt::format("the preference loss {} trains with {}, and {} would train with {}",
                           before.preference_loss, in_words(before.reference), name_of(to),
                           in_words(after.reference)),
       .way_out = from == RecipeTool::trl ? "remove precompute_ref_log_probs"
                                          : "write pref_loss: sigmoid"});
}

class Comparison {
 public:
  explicit Comparison(RecipeTool tool) : tool_(tool) {}

  void add(std::string key, const ConfigValue& before, const ConfigValue& after) {
    if (normal(before) == normal(after)) return;
    losses_.push_back({.key = std::move(key),
                       .why = fmt::format("{} becomes {} under {}", shown(before), shown(after),
                                          name_of(tool_))});
  }

  void add_dicts(const std::string& prefix, const ConfigValue& before, const ConfigValue& after) {
    std::set<std::string> keys;
    for (const ConfigValue* dict : {&before, &after})
      if (dict->is_dict())
        for (const ConfigValue::Entry& entry : dict->entries()) keys.insert(entry.key);
    for (const std::string& key : keys)
      if (!prefix.empty() || key != "do_train")  // of LLaMA-Factory's files, where all others train
        add(prefix + key, before.get(key), after.get(key));
  }

  std::vector<Loss> take() { return std::move(losses_); }

 private:
  RecipeTool tool_;
  std::vector<Loss> losses_;
};

/// As --loss takes it.
std::string loss_text(const PortableRecipe& recipe) {
  return "--loss " + (recipe.loss.empty() ? std::string("model") : recipe.loss);
}

ConfigValue value_of(const std::optional<std::int64_t>& number) {
  return number ? ConfigValue(*number) : ConfigValue();
}

ConfigValue value_of(const std::optional<Dtype>& dtype) {
  return dtype ? ConfigValue(name_of(*dtype)) : ConfigValue();
}

}  // namespace

std::optional<RecipeTool> written_tool(std::string_view name) {
  for (const auto& [word, tool] : written_tools)
    if (word == name) return tool;
  return std::nullopt;
}

std::string_view name_of(RecipeTool tool) {
  switch (tool) {
    case RecipeTool::llama_factory:
      return "LLaMA-Factory";
    case RecipeTool::trl:
      return "TRL";
    case RecipeTool::axolotl:
      return "axolotl";
    case RecipeTool::ms_swift:
      return "ms-swift";
    case RecipeTool::torchtune:
      return "torchtune";
    case RecipeTool::litgpt:
      return "litgpt";
    case RecipeTool::torchtitan:
      return "torchtitan";
  }
  return "?";
}

ReadRecipe read_portable(RecipeTool tool, std::string_view text, const std::string& file) {
  const Recipe recipe = read_recipe(tool, text, file);
  refuse_errors(recipe);
  refuse_others(recipe, tool, file);
  const ConfigValue value = recipe_value(text, file);
  ReadRecipe read;
  PortableRecipe& portable = read.recipe;
  portable = {.model = recipe.model,
              .prefers = recipe.loss.starts_with("dpo"),
              .quantization = recipe.quantization,
              .base_dtype = recipe.base_dtype,
              .length = recipe.length,
              .packs = packs(value, tool),
              .attention = recipe.attention,
              .liger = recipe.liger == all_liger ? "on" : recipe.liger,
              .loss = recipe.loss,
              .world = recipe.world};
  take_adapter(recipe, value, tool, portable);
  if (tool == RecipeTool::llama_factory && portable.adapter.is_null())
    portable.base_dtype = recipe.trainable_dtype.value_or(Dtype::bfloat16);
  if (portable.prefers) take_preference(recipe, value, tool, portable);
  if (recipe.own_loop)
    take_own_loop(recipe, value, portable, read.left_out);
  else
    take_trainer(recipe, value, tool, portable);
  leave_out(value, "", tool, read.left_out);
  if (portable.prefers)
    std::erase_if(read.left_out,
                  [&](const Loss& left) { return is_preference_key(left.key, tool); });
  for (const Finding& finding : recipe.findings)
    if (finding.rule == "not-modelled" && among(keys_of(tool), finding.key))
      read.left_out.push_back({.key = finding.key, .why = finding.message});
  return read;
}

std::vector<Loss> differences(const PortableRecipe& before, const PortableRecipe& after,
                              RecipeTool tool) {
  Comparison comparison(tool);
  comparison.add("model", before.model, after.model);
  comparison.add("preference", before.prefers, after.prefers);
  if (before.beta) comparison.add("beta", *before.beta, after.beta.value_or(0));
  comparison.add("preference loss", before.preference_loss, after.preference_loss);
  comparison.add_dicts("adapter.", before.adapter, after.adapter);
  comparison.add("quantization", before.quantization, after.quantization);
  comparison.add("base dtype", value_of(before.base_dtype), value_of(after.base_dtype));
  comparison.add("autocast", before.autocast, after.autocast);
  comparison.add("length", value_of(before.length), value_of(after.length));
  comparison.add("packing", before.packs, after.packs);
  comparison.add("attention", before.attention, after.attention);
  comparison.add("Liger", before.liger, after.liger);
  comparison.add("batch", before.batch, after.batch);
  comparison.add("micro-batches", before.micro_batches, after.micro_batches);
  comparison.add("optimizer", before.optimizer, after.optimizer);
  comparison.add("clip", before.clip, after.clip);
  comparison.add("checkpointing", before.checkpoints, after.checkpoints);
  if (before.checkpoints && before.reentrant != after.reentrant)
    comparison.add("use_reentrant",
                   before.reentrant ? ConfigValue(*before.reentrant) : ConfigValue(),
                   after.reentrant ? ConfigValue(*after.reentrant) : ConfigValue());
  comparison.add("world", value_of(before.world), value_of(after.world));
  comparison.add_dicts("", before.trainer, after.trainer);
  return comparison.take();
}

RecipeConversion convert_recipe(RecipeTool from, std::string_view text, const std::string& file,
                                RecipeTool to) {
  ReadRecipe read = read_portable(from, text, file);
  refuse_unnamed_layers(read.recipe, file, to);
  RecipeConversion conversion;
  conversion.text = text_of(written(read.recipe, to), read.recipe, to);
  const ReadRecipe back = read_portable(to, conversion.text, file_of(to));
  refuse_other_reference(read.recipe, back.recipe, from, file, to);
  conversion.losses = differences(read.recipe, back.recipe, to);
  // The tool decides on it, so that most files cannot keep it.
  if (loss_text(read.recipe) != loss_text(back.recipe))
    conversion.losses.push_back(
        {.key = "loss",
         .why = fmt::format("{} becomes {} under {}: logits need more or less memory",
                            loss_text(read.recipe), loss_text(back.recipe), name_of(to))});
  conversion.left_out = std::move(read.left_out);
  return conversion;
}

}  // namespace shardscope
