// Files of fine-tuning tools written for one another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_file.h"
#include "core/config/convert/portable_recipe.h"
#include "core/config/recipe_file.h"
#include "tests/core/complaint.h"

namespace shardscope {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr RecipeTool all_tools[] = {RecipeTool::llama_factory, RecipeTool::trl, RecipeTool::axolotl,
                                    RecipeTool::ms_swift};

std::vector<std::string> keys_of(const std::vector<Loss>& losses) {
  std::vector<std::string> keys;
  for (const Loss& loss : losses) keys.push_back(loss.key);
  return keys;
}

/// Every field that all four can say, at another value than their defaults.
PortableRecipe lora() {
  PortableRecipe recipe{.model = "Qwen/Qwen2.5-0.5B",
                        .base_dtype = Dtype::bfloat16,
                        .autocast = "bf16",
                        .length = 3000,
                        .packs = true,
                        .attention = "flash",
                        .liger = "on",
                        .batch = 3,
                        .micro_batches = 5,
                        .optimizer = "paged_adamw_8bit",
                        .clip = 0.3,
                        .checkpoints = true,
                        .reentrant = false};
  recipe.adapter = ConfigValue::dict({{"r", 12},
                                      {"lora_alpha", 20.0},
                                      {"lora_dropout", 0.1},
                                      {"target_modules", ConfigValue::list({"q_proj", "up_proj"})},
                                      {"modules_to_save", ConfigValue::list({"embed_tokens"})},
                                      {"use_rslora", true},
                                      {"use_dora", true}});
  recipe.trainer = ConfigValue::dict({{"learning_rate", 3e-4},
                                      {"num_train_epochs", 2},
                                      {"lr_scheduler_type", "cosine"},
                                      {"per_device_eval_batch_size", 7},
                                      {"ddp_find_unused_parameters", false},
                                      {"seed", 11},
                                      {"output_dir", "out"},
                                      {"deepspeed", "zero2.json"}});
  return recipe;
}

PortableRecipe qlora() {
  PortableRecipe recipe = lora();
  recipe.quantization = "nf4,double,compute=bfloat16,storage=bfloat16";
  recipe.adapter.erase("use_dora");
  recipe.adapter.set("target_modules", "all-linear");
  recipe.packs = false;
  recipe.attention = recipe.liger = "";
  return recipe;
}

PortableRecipe whole() {
  PortableRecipe recipe = lora();
  recipe.adapter = ConfigValue();
  recipe.optimizer = "adamw_torch";
  recipe.checkpoints = false;
  recipe.reentrant.reset();
  recipe.trainer.erase("ddp_find_unused_parameters");
  return recipe;
}

PortableRecipe preference() {
  PortableRecipe recipe = lora();
  recipe.prefers = true;
  recipe.beta = 0.2;
  recipe.packs = false;
  recipe.adapter.set("lora_dropout", 0.0);  // all three turn it off
  return recipe;
}

std::string text_under(const PortableRecipe& recipe, RecipeTool tool) {
  return text_of(written(recipe, tool), recipe, tool);
}

/// From one tool to another and back.
std::vector<std::string> lost_on_the_way(const PortableRecipe& recipe, RecipeTool one,
                                         RecipeTool other) {
  const std::string start = text_under(recipe, one);
  const std::string away = convert_recipe(one, start, file_of(one), other).text;
  const std::string back = convert_recipe(other, away, file_of(other), one).text;
  return keys_of(differences(read_portable(one, start, file_of(one)).recipe,
                             read_portable(one, back, file_of(one)).recipe, one));
}

// LLaMA-Factory loads the base as its config says, and has no key for it.
void expect_back_and_forth(const PortableRecipe& recipe, bool with_axolotl = true) {
  for (const RecipeTool one : all_tools)
    for (const RecipeTool other : all_tools) {
      if (!with_axolotl && (one == RecipeTool::axolotl || other == RecipeTool::axolotl)) continue;
      SCOPED_TRACE(std::string(name_of(one)) + " to " + std::string(name_of(other)));
      const bool states_dtype = one == RecipeTool::trl || one == RecipeTool::ms_swift;
      if (other == RecipeTool::llama_factory && states_dtype)
        EXPECT_THAT(lost_on_the_way(recipe, one, other), ElementsAre("base dtype"));
      else
        EXPECT_THAT(lost_on_the_way(recipe, one, other), IsEmpty());
    }
}

TEST(ConvertRecipe, LoraComesBackFromEveryTool) { expect_back_and_forth(lora()); }
TEST(ConvertRecipe, QloraComesBackFromEveryTool) { expect_back_and_forth(qlora()); }
TEST(ConvertRecipe, AWholeModelComesBackFromEveryTool) { expect_back_and_forth(whole()); }
TEST(ConvertRecipe, PreferencesComeBackFromThree) { expect_back_and_forth(preference(), false); }

TEST(ConvertRecipe, WhatIsReadIsWhatWasWritten) {
  for (const RecipeTool tool : {RecipeTool::trl, RecipeTool::axolotl, RecipeTool::ms_swift})
    for (const PortableRecipe& recipe : {lora(), qlora(), whole()}) {
      const ReadRecipe read = read_portable(tool, text_under(recipe, tool), file_of(tool));
      EXPECT_THAT(keys_of(differences(recipe, read.recipe, tool)), IsEmpty()) << name_of(tool);
      EXPECT_THAT(keys_of(read.left_out), IsEmpty()) << name_of(tool);
    }
}

std::string published(std::string_view name) {
  return std::string(SOURCE_ROOT) + "/tests/data/recipes/" + std::string(name);
}

RecipeConversion converted(std::string_view name, RecipeTool to) {
  const ConfigFile file = read_config_file(published(name));
  return convert_recipe(recipe_tool_of(file), file.text, file.name(), to);
}

// Names of LLaMA-Factory's dataclasses: hparams/data_args.py, finetuning_args.py, model_args.py.
TEST(ConvertRecipe, AxolotlsFileHasLlamaFactorysKeys) {
  const RecipeConversion conversion = converted("axolotl_qlora.yml", RecipeTool::llama_factory);
  for (const char* line :
       {"model_name_or_path: NousResearch/Meta-Llama-3-8B\n", "finetuning_type: lora\n",
        "quantization_bit: 4\n", "lora_rank: 32\n", "lora_alpha: 16\n", "lora_target: all\n",
        "cutoff_len: 4096\n", "packing: true\n", "per_device_train_batch_size: 2\n",
        "gradient_accumulation_steps: 4\n", "optim: paged_adamw_32bit\n", "num_train_epochs: 4\n",
        "lr_scheduler_type: cosine\n", "learning_rate: 0.0002\n"})
    EXPECT_THAT(conversion.text, HasSubstr(line));
  EXPECT_THAT(keys_of(conversion.left_out),
              IsSupersetOf({"datasets", "tokenizer_type", "model_type"}));
  EXPECT_THAT(keys_of(conversion.losses), Contains("base dtype"));
}

TEST(ConvertRecipe, LlamaFactorysFileBecomesACommandOfMsSwift) {
  const RecipeConversion conversion = converted("llama_factory_dpo.yaml", RecipeTool::ms_swift);
  EXPECT_THAT(conversion.text, HasSubstr("swift rlhf \\\n"));
  EXPECT_THAT(conversion.text, HasSubstr("--rlhf_type dpo"));
  EXPECT_THAT(conversion.text, HasSubstr("--beta 0.1"));
  EXPECT_THAT(keys_of(conversion.left_out), IsSupersetOf({"dataset", "template"}));
}

TEST(ConvertRecipe, TorchtunesSectionsAreTakenApart) {
  const RecipeConversion conversion =
      converted("torchtune_8b_qlora_single_device.yaml", RecipeTool::trl);
  EXPECT_THAT(conversion.text, HasSubstr("load_in_4bit: true\n"));
  EXPECT_THAT(conversion.text, HasSubstr("dtype: bfloat16\n"));
  EXPECT_THAT(conversion.text, HasSubstr("bf16: false\n"));
  const std::vector<std::string> left = keys_of(conversion.left_out);
  EXPECT_THAT(left, IsSupersetOf({"tokenizer.path", "lr_scheduler", "metric_logger"}));
  EXPECT_THAT(left, Not(Contains("model.lora_rank")));
}

TEST(ConvertRecipe, LitgptsFileIsWrittenForAll) {
  for (const RecipeTool to : all_tools)
    EXPECT_THAT(converted("litgpt_llama_2_7b_qlora.yaml", to).text, HasSubstr("16")) << name_of(to);
}

TEST(ConvertRecipe, EveryPublishedFileIsWritten) {
  for (const char* name :
       {"axolotl_lora_8b.yml", "axolotl_qlora.yml", "axolotl_qlora_fsdp_70b.yaml",
        "handbook_zephyr_sft_qlora.yaml", "litgpt_llama_2_7b_full.yaml",
        "litgpt_llama_2_7b_qlora.yaml", "llama_factory_lora.yaml", "llama_factory_qlora.yaml",
        "torchtune_8b_lora_single_device.yaml", "trl_example.yaml"})
    for (const RecipeTool to : all_tools) EXPECT_FALSE(converted(name, to).text.empty()) << name;
}

TEST(ConvertRecipe, WhatATargetCannotSayIsNamed) {
  PortableRecipe recipe = qlora();
  recipe.quantization = "nf4,compute=bfloat16,storage=uint8";
  recipe.adapter.set("rank_pattern", ConfigValue::dict({{"q_proj", 64}}));
  recipe.liger = "rms_norm";
  const ReadRecipe read = read_portable(
      RecipeTool::llama_factory, text_under(recipe, RecipeTool::llama_factory), "written.yaml");
  EXPECT_THAT(keys_of(differences(recipe, read.recipe, RecipeTool::llama_factory)),
              ElementsAre("adapter.rank_pattern", "quantization", "base dtype", "Liger"));
}

TEST(ConvertRecipe, OtherTrainingsAreRefused) {
  const std::string grpo = "model_name_or_path: m\nreward_funcs: [f]\nnum_generations: 4\n";
  EXPECT_THAT(complaint_of([&] { read_portable(RecipeTool::trl, grpo, "run.yaml"); }),
              HasSubstr("GRPO is not converted"));
  EXPECT_THAT(complaint_of([] { written(preference(), RecipeTool::axolotl); }),
              HasSubstr("preference training of axolotl is not modelled"));
}

}  // namespace
}  // namespace shardscope
