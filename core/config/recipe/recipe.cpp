#include "core/config/recipe/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>

#include "core/base/error.h"
#include "core/config/python/python_functions.h"
#include "core/config/recipe/command_line.h"
#include "core/config/recipe/peft_example.h"
#include "core/config/recipe/tools.h"
#include "core/config/toml/toml_reader.h"
#include "core/config/yaml/yaml_reader.h"

namespace shardscope {
namespace {

bool has_any(const ConfigValue& value, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return value.has(key); });
}

bool has_extension(const std::string& file, std::string_view extension) {
  return std::filesystem::path(file).extension() == extension;
}

/// Sections that no other tool has together.
bool is_torchtitan(const ConfigValue& value) {
  const ConfigValue* model = value.find("model");
  return model && model->has("flavor") && value.has("training");
}

/// Keys, and sections of them.
bool is_torchtune(const ConfigValue& value) {
  const ConfigValue* model = value.find("model");
  return (model && model->has("_component_")) ||
         (value.has("checkpointer") && value.has("tokenizer"));
}

}  // namespace

std::optional<RecipeTool> recipe_tool(const ConfigValue& value) {
  if (!value.is_dict()) return std::nullopt;
  if (is_torchtitan(value)) return RecipeTool::torchtitan;
  if (is_torchtune(value)) return RecipeTool::torchtune;
  if (value.has("base_model") &&
      has_any(value, {"micro_batch_size", "sequence_len", "datasets", "adapter", "num_epochs"}))
    return RecipeTool::axolotl;
  if (value.has("checkpoint_dir") && has_any(value, {"train", "lora_r", "precision", "devices"}))
    return RecipeTool::litgpt;
  if (value.has("model_name_or_path"))
    return has_any(value, {"finetuning_type", "stage", "cutoff_len", "lora_rank", "lora_target",
                           "template", "quantization_bit"})
               ? RecipeTool::llama_factory
               : RecipeTool::trl;
  if (value.has("model") &&
      has_any(value, {"tuner_type", "train_type", "sft_type", "lora_rank", "target_modules",
                      "torch_dtype", "dataset", "rlhf_type"}))
    return RecipeTool::ms_swift;
  return std::nullopt;
}

void set_reentrant(ConfigValue& arguments, bool reentrant) {
  constexpr std::string_view key = "gradient_checkpointing_kwargs";
  ConfigValue options = arguments.get(key);
  if (!options.is_dict()) options = ConfigValue::dict();
  options.set("use_reentrant", reentrant);
  arguments.set(key, std::move(options));
}

ConfigValue recipe_value(std::string_view text, const std::string& file) {
  if (has_extension(file, ".toml")) return read_toml(text, file);
  if (!has_extension(file, ".sh")) return read_yaml(text, file);
  ConfigValue value = recipes::command_line(text, file);
  if (value.is_dict()) return value;
  throw Error({.where = file,
               .what = "has no command of ms-swift, TRL, LLaMA-Factory or PEFT's examples/sft",
               .way_out = "give a script with `swift sft`, `trl sft`, `llamafactory-cli train` or "
                          "`train.py --use_peft_lora True`"});
}

Recipe read_recipe(RecipeTool tool, std::string_view text, const std::string& file) {
  if (const PythonName python = python_name(file); python.file.ends_with(".py"))
    return recipes::read_torchtitan_python(text, python);
  const ConfigValue value = recipe_value(text, file);
  if (!value.is_dict())
    throw Error({.where = file,
                 .what = fmt::format("expected keys and values, got {}", value.type_name()),
                 .way_out = "give the file of a training tool"});
  switch (tool) {
    case RecipeTool::trl:
      return recipes::is_of_peft_example(value) ? recipes::read_peft_example(value, file)
                                                : recipes::read_trl(value, file);
    case RecipeTool::axolotl:
      return recipes::read_axolotl(value, file);
    case RecipeTool::llama_factory:
      return recipes::read_llama_factory(value, file);
    case RecipeTool::torchtune:
      return recipes::read_torchtune(value, file);
    case RecipeTool::litgpt:
      return recipes::read_litgpt(value, file);
    case RecipeTool::ms_swift:
      return recipes::read_ms_swift(value, file);
    case RecipeTool::torchtitan:
      return recipes::read_torchtitan(value, file);
  }
  return {};
}

bool names_zero3(const ConfigValue& deepspeed) {
  return deepspeed.is_string() && (deepspeed.string().find("z3") != std::string::npos ||
                                   deepspeed.string().find("zero3") != std::string::npos ||
                                   deepspeed.string().find("stage3") != std::string::npos);
}

void refuse_errors(const Recipe& recipe) {
  const auto error = std::ranges::find(recipe.findings, Severity::error, &Finding::severity);
  if (error == recipe.findings.end()) return;
  throw Error({.where = fmt::format("{}:{}: {}", error->file, error->line, error->key),
               .what = error->message,
               .way_out = error->mend});
}

}  // namespace shardscope
