#include "core/config/recipe/peft_example.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/config/recipe/command_line.h"
#include "core/config/recipe/tools.h"

namespace shardscope::recipes {
namespace {

/// Keys of this script that no other tool has.
constexpr std::string_view own_keys[] = {
    "use_peft_lora",    "use_4bit_quantization",        "use_8bit_quantization",
    "use_nested_quant", "bnb_4bit_quant_storage_dtype", "chat_template_format"};

/// Of TRL's own script, which this one does not have.
constexpr std::string_view keys_of_trl[] = {"load_in_4bit",
                                            "load_in_8bit",
                                            "use_peft",
                                            "use_dora",
                                            "use_rslora",
                                            "lora_modules_to_save",
                                            "lora_target_parameters",
                                            "use_bnb_nested_quant",
                                            "bnb_4bit_quant_storage",
                                            "attn_implementation",
                                            "dtype",
                                            "torch_dtype"};

/// ModelArguments and DataTrainingArguments that change no memory, and what is read here.
constexpr std::string_view taken[] = {"use_4bit_quantization",
                                      "use_8bit_quantization",
                                      "use_nested_quant",
                                      "bnb_4bit_compute_dtype",
                                      "bnb_4bit_quant_storage_dtype",
                                      "bnb_4bit_quant_type",
                                      "use_flash_attn",
                                      "use_reentrant",
                                      "use_peft_lora",
                                      "use_unsloth",
                                      "chat_template_format",
                                      "add_special_tokens",
                                      "append_concat_token",
                                      "splits"};

/// A key's value, or the argument's default.
std::string text(const ConfigValue& given, std::string_view key, std::string_view otherwise) {
  const ConfigValue value = given.get(key);
  return value.is_null() ? std::string(otherwise) : value.str();
}

std::string quantization_of(const ConfigValue& given, const std::string& file) {
  const bool in_8 = given.get("use_8bit_quantization").truthy();
  const bool in_4 = given.get("use_4bit_quantization").truthy();
  if (in_4 && in_8)
    throw Error({.where = file + ": use_8bit_quantization",
                 .what = "cannot be set together with use_4bit_quantization",
                 .way_out = "remove one"});
  if (in_8) return "int8";
  if (!in_4) return {};
  return fmt::format("{}{},compute={},storage={}", text(given, "bnb_4bit_quant_type", "nf4"),
                     given.get("use_nested_quant").truthy() ? ",double" : "",
                     text(given, "bnb_4bit_compute_dtype", "float16"),
                     text(given, "bnb_4bit_quant_storage_dtype", "uint8"));
}

/// create_and_prepare_model: the dtype of a quantised base's storage, where that is a float.
Dtype dtype_of(const ConfigValue& given, const std::string& file) {
  if (!given.get("use_4bit_quantization").truthy()) return Dtype::float32;
  const std::string storage = text(given, "bnb_4bit_quant_storage_dtype", "uint8");
  if (storage.find("float") == std::string::npos) return Dtype::float32;
  return parse_dtype(storage, file + ": bnb_4bit_quant_storage_dtype");
}

void set_unless(ConfigValue& arguments, std::string_view key, ConfigValue value) {
  if (!arguments.has(key)) arguments.set(key, std::move(value));
}

/// The same training as TRL's own script is told it.
ConfigValue arguments_of_trl(ConfigValue given) {
  const bool reentrant = given.get("use_reentrant").truthy();
  const bool flash = given.get("use_flash_attn").truthy();
  const bool adapts = given.get("use_peft_lora").truthy();
  for (const std::string_view key : taken) given.erase(key);
  given.set(trl_command_key, "sft");
  given.set("use_peft", adapts);
  set_unless(given, "lora_r", 64);
  set_unless(given, "lora_alpha", 16);
  set_unless(given, "lora_dropout", 0.1);
  set_unless(given, "lora_target_modules",
             "q_proj,k_proj,v_proj,o_proj,down_proj,up_proj,gate_proj");
  if (flash) given.set("attn_implementation", "flash_attention_2");
  set_reentrant(given, reentrant);
  return given;
}

}  // namespace

bool is_peft_example_argument(std::string_view word) {
  return word.starts_with("--") && std::ranges::any_of(own_keys, [&](std::string_view key) {
           return word.substr(2) == key || word.substr(2).starts_with(std::string(key) + "=");
         });
}

bool is_of_peft_example(const ConfigValue& value) {
  return value.is_dict() &&
         std::ranges::any_of(own_keys, [&](std::string_view key) { return value.has(key); });
}

Recipe read_peft_example(ConfigValue value, const std::string& file) {
  for (const std::string_view key : keys_of_trl)
    if (value.has(key))
      throw Error(
          {.where = fmt::format("{}: {}", file, key),
           .what = "is a key of TRL's script, and others are of PEFT's examples/sft/train.py",
           .way_out = "keep the keys of one of the two"});
  if (value.get("use_unsloth").truthy())
    throw Error({.where = file + ": use_unsloth",
                 .what = "Unsloth's models are not read from this script's arguments",
                 .way_out = "set it to False, and give --unsloth xformers"});
  const std::string quantization = quantization_of(value, file);
  const Dtype dtype = dtype_of(value, file);
  const std::string template_format = text(value, "chat_template_format", "none");
  Recipe recipe = read_trl(arguments_of_trl(std::move(value)), file);
  recipe.quantization = quantization;
  recipe.base_dtype = dtype;
  if (!quantization.empty()) recipe.trainable_dtype = Dtype::bfloat16;
  recipe.loads_on_host = true;
  if (template_format == "chatml" || template_format == "zephyr")
    recipe.assumed.push_back(
        fmt::format("embedding and head as the config has them: tokens of chat_template_format {} "
                    "resize both to a multiple of 8",
                    template_format));
  return recipe;
}

}  // namespace shardscope::recipes
