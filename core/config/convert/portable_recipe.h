// What the file of a fine-tuning tool says of a training, in the words of no tool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/config/convert/convert.h"
#include "core/config/recipe/recipe.h"
#include "core/config/values/config_value.h"

namespace shardscope {

struct PortableRecipe {
  std::string model;
  bool prefers = false;        ///< DPO; else supervised fine-tuning
  std::optional<double> beta;  ///< of DPO
  /// Of DPO: its losses with commas between, by the tool's names; empty: "sigmoid".
  std::string preference_loss;
  std::string reference;  ///< of DPO, as --reference takes it
  /// LoraConfig's arguments: a dict; None: the whole model trains. No target_modules: PEFT's own
  /// list for the model; an empty list: target_parameters alone.
  ConfigValue adapter;
  std::string quantization;  ///< as --quantization takes it; empty: none
  /// None: that of the model's config. Of LLaMA-Factory's whole models that of what trains.
  std::optional<Dtype> base_dtype;
  std::string autocast = "no";  ///< "bf16", "fp16"
  std::optional<std::int64_t> length;
  bool packs = false;
  std::string attention;  ///< "flash", "eager"; empty: the default
  std::string liger;      ///< "on", or the kernels with + between; empty: none
  std::string loss;       ///< as --loss takes it: what the tool computes; only "cut" is a key's
  std::int64_t batch = 1;
  std::int64_t micro_batches = 1;
  std::string optimizer;  ///< as TrainingArguments.optim
  double clip = 1;
  bool checkpoints = false;
  std::optional<bool> reentrant;  ///< of checkpoints; none: the Trainer's default
  std::optional<std::int64_t> world;
  ConfigValue trainer = ConfigValue::dict();  ///< other arguments of the Trainer, by name
};

/// A recipe and what of its file has no place in it.
struct ReadRecipe {
  PortableRecipe recipe;
  std::vector<Loss> left_out;
};

/// "llama-factory", "trl", "axolotl", "ms-swift": tools whose files are written here.
std::optional<RecipeTool> written_tool(std::string_view name);
/// "LLaMA-Factory".
std::string_view name_of(RecipeTool tool);

/// Throws Error as read_recipe does, and where the training is of a kind that is not converted.
ReadRecipe read_portable(RecipeTool tool, std::string_view text, const std::string& file);

/// The keys of the tool's file. Throws Error where the tool has no such training.
ConfigValue written(const PortableRecipe& recipe, RecipeTool tool);
/// YAML, or the command of ms-swift in a script.
std::string text_of(const ConfigValue& keys, const PortableRecipe& recipe, RecipeTool tool);
/// The name of a file that the text is read back under.
std::string file_of(RecipeTool tool);

/// What differs, each in one sentence. `tool` wrote `after`.
std::vector<Loss> differences(const PortableRecipe& before, const PortableRecipe& after,
                              RecipeTool tool);

struct RecipeConversion {
  std::string text;
  std::vector<Loss> losses;    ///< what the file means another thing by than the one before
  std::vector<Loss> left_out;  ///< keys of the file before that have no place in it
};

/// Reads a file and writes it for another tool. What is written is read back to find the losses.
/// Throws Error where the other tool would train other layers, or with another reference model.
RecipeConversion convert_recipe(RecipeTool from, std::string_view text, const std::string& file,
                                RecipeTool to);

}  // namespace shardscope
