#include "core/config/recipe/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>

#include "core/base/error.h"
#include "core/config/recipe/command_line.h"
#include "core/config/recipe/tools.h"
#include "core/config/yaml/yaml_reader.h"

namespace shardscope {
namespace {

bool has_any(const ConfigValue& value, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return value.has(key); });
}

bool is_script(const std::string& file) { return std::filesystem::path(file).extension() == ".sh"; }

/// Keys, and sections of them.
bool is_torchtune(const ConfigValue& value) {
  const ConfigValue* model = value.find("model");
  return (model && model->has("_component_")) ||
         (value.has("checkpointer") && value.has("tokenizer"));
}

}  // namespace

bool is_recipe(ConfigKind kind) {
  return kind == ConfigKind::trl || kind == ConfigKind::axolotl ||
         kind == ConfigKind::llama_factory || kind == ConfigKind::torchtune ||
         kind == ConfigKind::litgpt || kind == ConfigKind::ms_swift;
}

std::optional<ConfigKind> recipe_kind(const ConfigValue& value) {
  if (!value.is_dict()) return std::nullopt;
  if (is_torchtune(value)) return ConfigKind::torchtune;
  if (value.has("base_model") &&
      has_any(value, {"micro_batch_size", "sequence_len", "datasets", "adapter", "num_epochs"}))
    return ConfigKind::axolotl;
  if (value.has("checkpoint_dir") && has_any(value, {"train", "lora_r", "precision", "devices"}))
    return ConfigKind::litgpt;
  if (value.has("model_name_or_path"))
    return has_any(value, {"finetuning_type", "stage", "cutoff_len", "lora_rank", "lora_target",
                           "template", "quantization_bit"})
               ? ConfigKind::llama_factory
               : ConfigKind::trl;
  if (value.has("model") &&
      has_any(value, {"tuner_type", "train_type", "sft_type", "lora_rank", "target_modules",
                      "torch_dtype", "dataset", "rlhf_type"}))
    return ConfigKind::ms_swift;
  return std::nullopt;
}

ConfigValue recipe_value(std::string_view text, const std::string& file) {
  if (!is_script(file)) return read_yaml(text, file);
  ConfigValue value = recipes::command_line(text, file);
  if (value.is_dict()) return value;
  throw Error({.where = file,
               .what = "has no command of ms-swift, TRL or LLaMA-Factory",
               .way_out = "give a script with `swift sft`, `trl sft` or `llamafactory-cli train`"});
}

Recipe read_recipe(const ConfigFile& file) {
  const ConfigValue value = recipe_value(file.text, file.name());
  if (!value.is_dict())
    throw Error({.where = file.name(),
                 .what = fmt::format("expected keys and values, got {}", value.type_name()),
                 .way_out = "give the file of a fine-tuning tool"});
  switch (file.kind) {
    case ConfigKind::trl:
      return recipes::read_trl(value, file.name());
    case ConfigKind::axolotl:
      return recipes::read_axolotl(value, file.name());
    case ConfigKind::llama_factory:
      return recipes::read_llama_factory(value, file.name());
    case ConfigKind::torchtune:
      return recipes::read_torchtune(value, file.name());
    case ConfigKind::litgpt:
      return recipes::read_litgpt(value, file.name());
    case ConfigKind::ms_swift:
      return recipes::read_ms_swift(value, file.name());
    default:
      throw Error(
          {.where = file.name(),
           .what = fmt::format("is no file of a fine-tuning tool but of {}", name_of(file.kind)),
           .way_out = "give it with the option of that tool"});
  }
}

}  // namespace shardscope
