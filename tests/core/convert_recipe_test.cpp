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

// LLaMA-Factory loads an adapter's base as its config says, and has no key for it; of whole models
// pure_bf16 is that key.
void expect_back_and_forth(const PortableRecipe& recipe, bool with_axolotl = true) {
  for (const RecipeTool one : all_tools)
    for (const RecipeTool other : all_tools) {
      if (!with_axolotl && (one == RecipeTool::axolotl || other == RecipeTool::axolotl)) continue;
      SCOPED_TRACE(std::string(name_of(one)) + " to " + std::string(name_of(other)));
      const bool states_dtype = one == RecipeTool::trl || one == RecipeTool::ms_swift;
      if (other == RecipeTool::llama_factory && states_dtype && !recipe.adapter.is_null())
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

TEST(ConvertRecipe, KeepsTheDtypeOfWhatTrains) {
  const std::string rest =
      "model_name_or_path: m\nstage: sft\ndo_train: true\nfinetuning_type: full\n"
      "template: qwen\ndataset: x\noutput_dir: out\nbf16: true\n";
  const auto under = [&](const std::string& more, RecipeTool to) {
    return convert_recipe(RecipeTool::llama_factory, rest + more, "run.yaml", to).text;
  };
  EXPECT_THAT(under("pure_bf16: true\n", RecipeTool::llama_factory), HasSubstr("pure_bf16: true"));
  EXPECT_THAT(under("", RecipeTool::llama_factory), Not(HasSubstr("pure_bf16: true")));
  EXPECT_THAT(under("pure_bf16: true\n", RecipeTool::trl), HasSubstr("dtype: bfloat16"));
  EXPECT_THAT(under("", RecipeTool::trl), HasSubstr("dtype: float32"));
}

// hparams/parser.py: "`pure_bf16` is incompatible with DeepSpeed ZeRO-3."
TEST(ConvertRecipe, WritesNoPureBf16BesideZero3) {
  const auto under = [](const std::string& deepspeed) {
    return convert_recipe(RecipeTool::trl,
                          "model_name_or_path: m\ndataset_name: x\noutput_dir: out\n"
                          "max_length: 64\ndtype: bfloat16\nbf16: true\ndeepspeed: " +
                              deepspeed + "\n",
                          "run.yaml", RecipeTool::llama_factory)
        .text;
  };
  EXPECT_THAT(under("ds_z2_config.json"), HasSubstr("pure_bf16: true"));
  EXPECT_THAT(under("ds_z3_config.json"), Not(HasSubstr("pure_bf16: true")));
}

// TRL's SFTTrainer has tiles, LLaMA-Factory whole logits.
TEST(ConvertRecipe, SaysThatTheLossIsComputedOtherwise) {
  const RecipeConversion conversion = convert_recipe(
      RecipeTool::trl, "model_name_or_path: m\ndataset_name: x\noutput_dir: out\nmax_length: 64\n",
      "run.yaml", RecipeTool::llama_factory);
  EXPECT_THAT(keys_of(conversion.losses), Contains("loss"));
}

TEST(ConvertRecipe, RefusesAFileThatItsToolRefuses) {
  EXPECT_THAT(complaint_of([] {
                convert_recipe(
                    RecipeTool::llama_factory,
                    "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\nlora_rnk: 4\n",
                    "run.yaml", RecipeTool::trl);
              }),
              HasSubstr("run.yaml:4: lora_rnk: "));
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

/// Of experts that are parameters, with `targets` beside them.
PortableRecipe experts(const ConfigValue& targets) {
  PortableRecipe recipe = lora();
  recipe.adapter.erase("use_dora");
  recipe.adapter.set("target_modules", targets);
  recipe.adapter.set("target_parameters", ConfigValue::list({"experts.down_proj"}));
  return recipe;
}

constexpr RecipeTool tools_with_parameters[] = {RecipeTool::trl, RecipeTool::axolotl,
                                                RecipeTool::ms_swift};

TEST(ConvertRecipe, ParametersComeBackBesideLayers) {
  for (const ConfigValue& targets : {ConfigValue::list({"q_proj"}), ConfigValue("all-linear")})
    for (const RecipeTool one : tools_with_parameters)
      for (const RecipeTool other : tools_with_parameters)
        EXPECT_THAT(lost_on_the_way(experts(targets), one, other), IsEmpty())
            << name_of(one) << " to " << name_of(other);
}

TEST(ConvertRecipe, ParametersAloneComeBackFromTwo) {
  const PortableRecipe recipe = experts(ConfigValue::list());
  for (const RecipeTool one : {RecipeTool::trl, RecipeTool::axolotl})
    for (const RecipeTool other : {RecipeTool::trl, RecipeTool::axolotl}) {
      EXPECT_THAT(lost_on_the_way(recipe, one, other), IsEmpty()) << name_of(one);
      EXPECT_THAT(text_under(recipe, one), HasSubstr("lora_target_parameters"));
      EXPECT_THAT(text_under(recipe, one), Not(HasSubstr("all-linear")));
      EXPECT_THAT(text_under(recipe, one), Not(HasSubstr("lora_target_linear")));
    }
}

TEST(ConvertRecipe, ParametersAloneAreNotAllLayers) {
  const PortableRecipe recipe = experts(ConfigValue::list());
  for (const RecipeTool tool : {RecipeTool::llama_factory, RecipeTool::ms_swift})
    EXPECT_THAT(complaint_of([&] { written(recipe, tool); }), HasSubstr("names no layers"));
}

TEST(ConvertRecipe, LlamaFactoryLosesParameters) {
  const std::string file = text_under(experts(ConfigValue::list({"q_proj"})), RecipeTool::axolotl);
  const RecipeConversion conversion =
      convert_recipe(RecipeTool::axolotl, file, "run.yaml", RecipeTool::llama_factory);
  EXPECT_THAT(keys_of(conversion.losses), Contains("adapter.target_parameters"));
}

TEST(ConvertRecipe, LayersThatPeftChoosesAreRefused) {
  const std::string file = "model_name_or_path: m\nuse_peft: true\n";
  for (const std::string& more : {std::string(), std::string("lora_target_parameters: [w]\n")})
    for (const RecipeTool to : all_tools) {
      const auto convert = [&] { convert_recipe(RecipeTool::trl, file + more, "run.yaml", to); };
      if (to == RecipeTool::trl)
        EXPECT_NO_THROW(convert());
      else
        EXPECT_THAT(complaint_of(convert), HasSubstr("name the layers in lora_target_modules"));
    }
}

std::string llama_factory_dpo(const std::string& loss) {
  return "model_name_or_path: m\nstage: dpo\nlora_target: all\npref_loss: " + loss + "\n";
}

TEST(ConvertRecipe, PreferenceLossesKeepTheirNames) {
  for (const RecipeTool to : {RecipeTool::llama_factory, RecipeTool::trl, RecipeTool::ms_swift}) {
    const RecipeConversion conversion =
        convert_recipe(RecipeTool::llama_factory, llama_factory_dpo("ipo"), "run.yaml", to);
    EXPECT_THAT(conversion.text, HasSubstr("ipo"));
    EXPECT_THAT(keys_of(conversion.losses), Not(Contains("preference loss")));
    EXPECT_THAT(keys_of(conversion.left_out), Not(Contains("pref_loss")));
  }
}

TEST(ConvertRecipe, APreferenceLossThatATargetLacksIsNamed) {
  const std::string file = "model_name_or_path: m\nbeta: 0.1\nloss_type: [sigmoid, sft]\n";
  const auto losses = [&](RecipeTool to) {
    return keys_of(convert_recipe(RecipeTool::trl, file, "run.yaml", to).losses);
  };
  EXPECT_THAT(losses(RecipeTool::ms_swift), Not(Contains("preference loss")));
  EXPECT_THAT(losses(RecipeTool::llama_factory), Contains("preference loss"));
}

TEST(ConvertRecipe, AnotherReferenceModelIsRefused) {
  const std::string simpo = llama_factory_dpo("simpo");
  for (const RecipeTool to : {RecipeTool::trl, RecipeTool::ms_swift})
    EXPECT_THAT(
        complaint_of([&] { convert_recipe(RecipeTool::llama_factory, simpo, "run.yaml", to); }),
        HasSubstr("simpo trains with no reference model"));
  EXPECT_THAT(
      convert_recipe(RecipeTool::llama_factory, simpo, "run.yaml", RecipeTool::llama_factory).text,
      HasSubstr("pref_loss: simpo"));
  const std::string kept = "model_name_or_path: m\nbeta: 0.1\nprecompute_ref_log_probs: true\n";
  EXPECT_THAT(complaint_of(
                  [&] { convert_recipe(RecipeTool::trl, kept, "run.yaml", RecipeTool::ms_swift); }),
              HasSubstr("remove precompute_ref_log_probs"));
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
