#include "core/config/recipe_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/config/lint.h"
#include "core/config/values/config_json.h"
#include "tests/core/complaint.h"

namespace shardscope {
namespace {

ConfigFile published(std::string_view name) {
  return read_config_file(std::string(SOURCE_ROOT) + "/tests/data/recipes/" + std::string(name));
}

Recipe recipe_of(std::string_view name) { return read_recipe(published(name)); }

ConfigFile written(ConfigKind kind, std::string text, std::string name = "run.yaml") {
  return {.path = std::move(name), .kind = kind, .text = std::move(text)};
}

Recipe read(ConfigKind kind, std::string text) {
  return read_recipe(written(kind, std::move(text)));
}

std::string refusal(ConfigKind kind, std::string text) {
  return complaint_of([&] { read(kind, std::move(text)); });
}

std::string refusal_of_script(std::string text) {
  return complaint_of([&] { read_recipe(written(ConfigKind::trl, std::move(text), "run.sh")); });
}

const Finding* finding_about(const Recipe& recipe, std::string_view key) {
  const auto found = std::find_if(recipe.findings.begin(), recipe.findings.end(),
                                  [&](const Finding& finding) { return finding.key == key; });
  return found == recipe.findings.end() ? nullptr : &*found;
}

TEST(RecipeKind, IsToldByTheKeysOfThePublishedFiles) {
  EXPECT_EQ(published("axolotl_qlora.yml").kind, ConfigKind::axolotl);
  EXPECT_EQ(published("llama_factory_lora.yaml").kind, ConfigKind::llama_factory);
  EXPECT_EQ(published("torchtune_8b_lora_single_device.yaml").kind, ConfigKind::torchtune);
  EXPECT_EQ(published("litgpt_llama_2_7b_qlora.yaml").kind, ConfigKind::litgpt);
  EXPECT_EQ(published("handbook_zephyr_sft_qlora.yaml").kind, ConfigKind::trl);
  EXPECT_EQ(published("trl_example.yaml").kind, ConfigKind::trl);
}

// hparams/finetuning_args.py and optimizers/mapping.py.
TEST(MuonRecipe, IsAskedForByKeysOfTheTools) {
  EXPECT_TRUE(read(ConfigKind::llama_factory,
                   "model_name_or_path: m\nstage: sft\nfinetuning_type: full\nuse_muon: true\n")
                  .training_arguments.get("optim")
                  .is("muon"));
  const Recipe swift = read(ConfigKind::ms_swift, "model: m\ntuner_type: full\noptimizer: muon\n");
  EXPECT_TRUE(swift.training_arguments.get("optim").is("muon"));
}

// TrlParser of TRL 1.16.0 makes of this file: dtype float32, max_length 1024, bf16 True,
// gradient_checkpointing True, per_device_train_batch_size 8, optim adamw_torch_fused.
TEST(TrlRecipe, HasTheDefaultsOfTrl) {
  const Recipe recipe = recipe_of("trl_example.yaml");
  EXPECT_EQ(recipe.model, "Qwen/Qwen2.5-0.5B");
  EXPECT_EQ(recipe.base_dtype, Dtype::float32);
  EXPECT_EQ(recipe.length, 1024);
  EXPECT_TRUE(recipe.adapter.is_null());
  EXPECT_EQ(recipe.training_arguments.get("bf16"), ConfigValue(true));
  EXPECT_EQ(recipe.training_arguments.get("gradient_checkpointing"), ConfigValue(true));
  EXPECT_FALSE(recipe.training_arguments.has("per_device_train_batch_size"));
  EXPECT_TRUE(recipe.findings.empty());
}

// TrlParser of TRL 1.16.0: dtype float32 and max_length 1024, whatever torch_dtype: bfloat16 and
// max_seq_length: 2048 say; lora_r 16, lora_alpha 16, lora_dropout 0.05, load_in_4bit,
// use_bnb_nested_quant False, per_device_train_batch_size 4, gradient_accumulation_steps 2.
TEST(TrlRecipe, DropsTheNamesOfEarlierReleases) {
  const Recipe recipe = recipe_of("handbook_zephyr_sft_qlora.yaml");
  EXPECT_EQ(recipe.base_dtype, Dtype::float32);
  EXPECT_EQ(recipe.length, 1024);
  const Finding* dtype = finding_about(recipe, "torch_dtype");
  ASSERT_NE(dtype, nullptr);
  EXPECT_EQ(dtype->line, 4);
  EXPECT_EQ(dtype->mend, "write dtype: bfloat16");
  ASSERT_NE(finding_about(recipe, "max_seq_length"), nullptr);
  EXPECT_EQ(finding_about(recipe, "max_seq_length")->mend, "write max_length: 2048");
}

TEST(TrlRecipe, MakesAdaptersOfAQuantisedBaseBfloat16) {
  const Recipe recipe = recipe_of("handbook_zephyr_sft_qlora.yaml");
  EXPECT_EQ(recipe.quantization, "nf4,compute=float32");
  EXPECT_EQ(recipe.trainable_dtype, Dtype::bfloat16);
  EXPECT_EQ(json_text(recipe.adapter),
            "{\"r\": 16, \"lora_alpha\": 16.0, \"lora_dropout\": 0.05, \"target_modules\": "
            "[\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\", \"gate_proj\", \"up_proj\", "
            "\"down_proj\"]}");
  EXPECT_EQ(recipe.training_arguments.get("per_device_train_batch_size"), ConfigValue(4));
  EXPECT_EQ(recipe.training_arguments.get("gradient_accumulation_steps"), ConfigValue(2));
}

// DPOConfig of TRL 1.16.0: max_length 1024, precompute_ref_log_probs False; DPOTrainer keeps a
// second model unless PEFT is used.
TEST(TrlRecipe, ReadsThePublishedDpo) {
  const Recipe recipe = recipe_of("handbook_zephyr_dpo_full.yaml");
  EXPECT_EQ(recipe.loss, "dpo");
  EXPECT_EQ(recipe.reference, "");
  EXPECT_EQ(recipe.length, 1024);
  ASSERT_NE(finding_about(recipe, "max_prompt_length"), nullptr);
  EXPECT_EQ(finding_about(recipe, "max_prompt_length")->rule, "ignored-key");
  const std::string model = "model_name_or_path: m\nprecompute_ref_log_probs: true\n";
  EXPECT_EQ(read(ConfigKind::trl, model).reference, "none");
}

// DPOConfig's disable_dropout is True, and reaches lora_dropout; SFT keeps it at 0.05.
TEST(TrlRecipe, TakesTheDropoutOfAdaptersAwayInDpo) {
  const std::string adapter = "model_name_or_path: m\nuse_peft: true\n";
  const auto dropout = [](const Recipe& recipe) { return recipe.adapter.get("lora_dropout"); };
  EXPECT_EQ(dropout(read(ConfigKind::trl, adapter + "beta: 0.1\n")), ConfigValue(0.0));
  EXPECT_EQ(dropout(read(ConfigKind::trl, adapter)), ConfigValue(0.05));
}

// GRPOConfig: max_completion_length 256, beta 0.0, for which no reference is loaded.
TEST(TrlRecipe, ReadsGrpo) {
  const std::string grpo = "model_name_or_path: m\nnum_generations: 8\n";
  const Recipe recipe = read(ConfigKind::trl, grpo + "max_prompt_length: 300\n");
  EXPECT_EQ(recipe.loss, "grpo");
  EXPECT_EQ(recipe.reference, "none");
  EXPECT_EQ(recipe.prompt, 300);
  EXPECT_EQ(recipe.length, 556);
  EXPECT_EQ(read(ConfigKind::trl, grpo + "beta: 0.04\n").reference, "copy");
  EXPECT_EQ(read(ConfigKind::trl, grpo + "beta: 0.04\nuse_peft: true\n").reference, "adapter-off");
}

// The head of SFTTrainer makes no whole logits; its label smoother needs them.
TEST(TrlRecipe, HasTheFusedHeadInSft) {
  EXPECT_EQ(recipe_of("trl_example.yaml").loss, "tiles");
  const std::string smooth = "model_name_or_path: m\nlabel_smoothing_factor: 0.1\n";
  EXPECT_EQ(read(ConfigKind::trl, smooth).loss, "");
}

TEST(TrlRecipe, TakesTheTrainerFromTheCommand) {
  const auto loss_of = [](std::string command) {
    return read_recipe(written(ConfigKind::trl, std::move(command), "run.sh")).loss;
  };
  EXPECT_EQ(loss_of("trl dpo --model_name_or_path m\n"), "dpo");
  EXPECT_EQ(loss_of("accelerate launch trl/scripts/grpo.py --model_name_or_path m\n"), "grpo");
  EXPECT_EQ(loss_of("trl sft --model_name_or_path m\n"), "tiles");
}

// SFTTrainer.__init__: padding_free, or packing by a strategy that cuts no sequence.
TEST(TrlRecipe, FlattensABatchThatIsPackedOrNotPadded) {
  const auto flattens = [](const std::string& keys) {
    return read(ConfigKind::trl, "model_name_or_path: m\n" + keys).flattens;
  };
  EXPECT_FALSE(flattens(""));
  EXPECT_TRUE(flattens("packing: true\n"));
  EXPECT_TRUE(flattens("packing: true\npacking_strategy: bfd_split\n"));
  EXPECT_FALSE(flattens("packing: true\npacking_strategy: wrapped\n"));
  EXPECT_TRUE(flattens("padding_free: true\n"));
}

// PEFT 5d602fd, examples/sft/run_peft_qlora_fsdp.sh: the arguments, shortened.
constexpr const char* peft_qlora =
    "accelerate launch --config_file \"configs/fsdp_config_qlora.yaml\"  train.py \\\n"
    "--model_name_or_path \"meta-llama/Llama-2-70b-hf\" --chat_template_format \"chatml\" \\\n"
    "--add_special_tokens False --append_concat_token False --splits \"train,test\" \\\n"
    "--max_length 2048 --bf16 True --packing True --per_device_train_batch_size 2 \\\n"
    "--gradient_accumulation_steps 2 --gradient_checkpointing True --use_reentrant True \\\n"
    "--use_flash_attn True --use_peft_lora True --lora_r 8 --lora_alpha 16 \\\n"
    "--lora_target_modules \"all-linear\" --use_4bit_quantization True --use_nested_quant True \\\n"
    "--bnb_4bit_compute_dtype \"bfloat16\" --bnb_4bit_quant_storage_dtype \"bfloat16\"\n";

TEST(PeftExample, IsReadAsItsScriptReadsIt) {
  const Recipe recipe = read_recipe(written(ConfigKind::trl, peft_qlora, "run_peft.sh"));
  EXPECT_EQ(recipe.quantization, "nf4,double,compute=bfloat16,storage=bfloat16");
  EXPECT_EQ(recipe.base_dtype, Dtype::bfloat16);
  EXPECT_EQ(recipe.trainable_dtype, Dtype::bfloat16);
  EXPECT_EQ(recipe.adapter.get("r"), ConfigValue(8));
  EXPECT_EQ(recipe.adapter.get("lora_dropout"), ConfigValue(0.1));
  EXPECT_EQ(recipe.attention, "flash");
  EXPECT_EQ(recipe.length, 2048);
  EXPECT_TRUE(recipe.flattens);
  // accelerate's own file, and the tokens that chatml adds, are not read.
  ASSERT_EQ(recipe.findings.size(), 1u);
  EXPECT_EQ(recipe.findings.front().rule, "other-file");
  EXPECT_NE(recipe.assumed.back().find("chat_template_format chatml"), std::string::npos);
  EXPECT_EQ(recipe.training_arguments.get("gradient_checkpointing_kwargs").get("use_reentrant"),
            ConfigValue(true));
}

// from_pretrained without device_map; in float32, where the weights' storage says nothing else.
TEST(PeftExample, LoadsByItself) {
  const Recipe recipe = read_recipe(written(
      ConfigKind::trl, "python train.py --model_name_or_path m --use_peft_lora True\n", "run.sh"));
  EXPECT_TRUE(recipe.loads_on_host);
  EXPECT_EQ(recipe.base_dtype, Dtype::float32);
  EXPECT_EQ(recipe.adapter.get("r"), ConfigValue(64));
}

// Its HfArgumentParser knows no key of TRL's ModelConfig, and its trainer is SFTTrainer.
TEST(PeftExample, HasNoKeysOfTrlsScript) {
  const std::string own = "python train.py --model_name_or_path m --use_peft_lora True ";
  EXPECT_NE(refusal_of_script(own + "--load_in_8bit True\n")
                .find("run.sh: load_in_8bit: is a key of TRL's script"),
            std::string::npos);
  EXPECT_NE(refusal_of_script(own + "--loss_type sigmoid\n")
                .find("\"sigmoid\" is none of nll, chunked_nll, dft"),
            std::string::npos);
}

TEST(PeftExample, HasAsManyRanksAsItsLauncherStarts) {
  const auto ranks = [](const std::string& launcher) {
    return read_recipe(written(ConfigKind::trl,
                               launcher + " train.py --model_name_or_path m --use_peft_lora True\n",
                               "run.sh"))
        .world;
  };
  EXPECT_EQ(ranks("torchrun --nproc_per_node 8"), 8);
  EXPECT_EQ(ranks("torchrun --nproc-per-node=4"), 4);
  EXPECT_EQ(ranks("accelerate launch --num_processes 2"), 2);
  EXPECT_EQ(ranks("torchrun --nnodes 2 --nproc_per_node 8"), 16);
  EXPECT_EQ(ranks("deepspeed --num_nodes 2 --num_gpus 4"), 8);
  EXPECT_EQ(ranks("torchrun --nnodes 1:4 --nproc_per_node 8"), std::nullopt);
  EXPECT_EQ(ranks("torchrun --nproc_per_node $GPUS"), std::nullopt);
  EXPECT_EQ(ranks("python"), std::nullopt);
}

// finetune_internvl.py has --use_flash_attn, too.
TEST(PeftExample, IsKnownByKeysThatNoOtherScriptHas) {
  EXPECT_NE(refusal_of_script("python finetune.py --use_flash_attn True\n")
                .find("has no command of ms-swift, TRL, LLaMA-Factory or PEFT's examples/sft"),
            std::string::npos);
}

TEST(TrlRecipe, KnowsTheStrategiesOfPacking) {
  EXPECT_NE(
      refusal(ConfigKind::trl, "model_name_or_path: m\npacking: true\npacking_strategy: wide\n")
          .find("\"wide\" is none of bfd, bfd_split, wrapped"),
      std::string::npos);
}

// dpo_trainer.py: "currently disabled".
TEST(TrlRecipe, SaysThatDpoTurnsPaddingFreeOff) {
  const Recipe recipe =
      read(ConfigKind::trl, "model_name_or_path: m\nbeta: 0.1\npadding_free: true\n");
  const Finding* finding = finding_about(recipe, "padding_free");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->line, 3);
  EXPECT_FALSE(recipe.flattens);
}

TEST(TrlRecipe, RefusesKtoByItsLoss) {
  EXPECT_NE(refusal(ConfigKind::trl, "model_name_or_path: m\nbeta: 0.1\nloss_type: kto\n")
                .find("run.yaml:3: loss_type: kto belongs to KTO"),
            std::string::npos);
}

TEST(TrlRecipe, RefusesKtoByItsKeys) {
  EXPECT_NE(refusal(ConfigKind::trl, "model_name_or_path: m\ndesirable_weight: 1.0\n")
                .find("run.yaml:2: desirable_weight: belongs to KTO"),
            std::string::npos);
}

// Without use_peft, lora_r says nothing. Source: trainer/utils.py, get_peft_config.
TEST(TrlRecipe, TrainsTheWholeModelUnlessPeftIsAskedFor) {
  const Recipe recipe = read(ConfigKind::trl, "model_name_or_path: m\nlora_r: 8\n");
  EXPECT_TRUE(recipe.adapter.is_null());
}

// bf16 auto is true on a GPU that has it; qlora is nf4 with double quantisation, kept in bfloat16.
// Source: axolotl, loaders/model.py.
TEST(AxolotlRecipe, ReadsThePublishedQlora) {
  const Recipe recipe = recipe_of("axolotl_qlora.yml");
  EXPECT_EQ(recipe.model, "NousResearch/Meta-Llama-3-8B");
  EXPECT_EQ(recipe.base_dtype, Dtype::bfloat16);
  EXPECT_EQ(recipe.quantization, "nf4,double,compute=bfloat16,storage=bfloat16");
  EXPECT_EQ(recipe.length, 4096);
  EXPECT_EQ(recipe.attention, "flash");
  EXPECT_EQ(json_text(recipe.adapter),
            "{\"r\": 32, \"lora_alpha\": 16.0, \"lora_dropout\": 0.05, \"target_modules\": "
            "\"all-linear\", \"lists_linear_layers\": true}");
  const ConfigValue& arguments = recipe.training_arguments;
  EXPECT_EQ(arguments.get("per_device_train_batch_size"), ConfigValue(2));
  EXPECT_EQ(arguments.get("gradient_accumulation_steps"), ConfigValue(4));
  EXPECT_EQ(arguments.get("optim"), ConfigValue("paged_adamw_32bit"));
  EXPECT_EQ(arguments.get("bf16"), ConfigValue(true));
  EXPECT_EQ(arguments.get("gradient_checkpointing"), ConfigValue(true));
  EXPECT_TRUE(recipe.findings.empty()) << recipe.findings.front().key;
}

TEST(AxolotlRecipe, PassesFsdpOnToTheTrainer) {
  const Recipe recipe = recipe_of("axolotl_qlora_fsdp_70b.yaml");
  EXPECT_EQ(recipe.training_arguments.get("fsdp"),
            ConfigValue(ConfigValue::List{"full_shard", "auto_wrap"}));
  // Without fsdp_version it is 1; the prefix of keys is the old way of writing them.
  EXPECT_EQ(recipe.training_arguments.at("fsdp_config").get("version"), ConfigValue(1));
  EXPECT_EQ(recipe.training_arguments.at("fsdp_config").get("cpu_offload"), ConfigValue(true));
}

TEST(AxolotlRecipe, TrainsCopiesOfModulesToSave) {
  const Recipe recipe = recipe_of("axolotl_lora_8b.yml");
  EXPECT_EQ(recipe.quantization, "int8");
  EXPECT_EQ(recipe.adapter.get("modules_to_save"),
            ConfigValue(ConfigValue::List{"embed_tokens", "lm_head"}));
}

// LoRAValidationMixin: "Require cfg.load_in_4bit to be True for qlora".
TEST(AxolotlRecipe, RefusesQloraWithout4Bits) {
  EXPECT_EQ(refusal(ConfigKind::axolotl, "base_model: m\nadapter: qlora\n"),
            "run.yaml:2: adapter: axolotl's qlora requires load_in_4bit: true; write "
            "load_in_4bit: true, or adapter: lora");
}

TEST(AxolotlRecipe, SaysThatLoraLeaves4BitsOut) {
  const Recipe recipe = read(ConfigKind::axolotl,
                             "base_model: m\nadapter: lora\nlora_target_linear: true\n"
                             "load_in_4bit: true\n");
  EXPECT_EQ(recipe.quantization, "");
  ASSERT_NE(finding_about(recipe, "load_in_4bit"), nullptr);
  EXPECT_EQ(finding_about(recipe, "load_in_4bit")->line, 4);
}

// batch_size // micro_batch_size where gradient_accumulation_steps is not given.
TEST(AxolotlRecipe, DividesTheBatchSize) {
  const Recipe recipe =
      read(ConfigKind::axolotl,
           "base_model: m\nmicro_batch_size: 2\nbatch_size: 9\ngradient_accumulation_steps:\n");
  EXPECT_EQ(recipe.training_arguments.get("gradient_accumulation_steps"), ConfigValue(4));
}

// lora_alpha is 2 * lora_rank; what trains is float32; checkpointing is on.
// Source: hparams/finetuning_args.py, model/adapter.py, model/model_utils/checkpointing.py.
TEST(LlamaFactoryRecipe, HasItsDefaults) {
  const Recipe recipe = recipe_of("llama_factory_lora.yaml");
  EXPECT_EQ(json_text(recipe.adapter),
            "{\"r\": 8, \"lora_alpha\": 16.0, \"lora_dropout\": 0.0, \"target_modules\": "
            "\"all-linear\", \"lists_linear_layers\": true}");
  EXPECT_EQ(recipe.trainable_dtype, Dtype::float32);
  EXPECT_FALSE(recipe.base_dtype);  // torch_dtype "auto"
  EXPECT_EQ(recipe.training_arguments.get("gradient_checkpointing"), ConfigValue(true));
  EXPECT_EQ(recipe.training_arguments.get("gradient_accumulation_steps"), ConfigValue(8));
  EXPECT_EQ(recipe.length, 2048);
  EXPECT_TRUE(recipe.findings.empty()) << recipe.findings.front().key;
}

// double_quantization is on, and storage is the compute dtype.
TEST(LlamaFactoryRecipe, QuantisesTwiceAndStoresInTheComputeDtype) {
  EXPECT_EQ(recipe_of("llama_factory_qlora.yaml").quantization,
            "nf4,double,compute=bfloat16,storage=bfloat16");
}

// CustomDPOTrainer takes whole logits in float32. create_ref_model makes no second model of LoRA;
// ORPO and SimPO have no reference (use_ref_model).
TEST(LlamaFactoryRecipe, ReadsThePublishedDpo) {
  const Recipe recipe = recipe_of("llama_factory_dpo.yaml");
  EXPECT_EQ(recipe.loss, "dpo-logits");
  EXPECT_EQ(recipe.reference, "adapter-off");
  EXPECT_TRUE(recipe.findings.empty()) << recipe.findings.front().key;
  const std::string full = "model_name_or_path: m\nstage: dpo\nfinetuning_type: full\n";
  EXPECT_EQ(read(ConfigKind::llama_factory, full).reference, "copy");
  EXPECT_EQ(read(ConfigKind::llama_factory, full + "pref_loss: simpo\n").reference, "none");
}

TEST(LlamaFactoryRecipe, RefusesOtherStages) {
  EXPECT_EQ(refusal(ConfigKind::llama_factory,
                    "model_name_or_path: m\nfinetuning_type: full\nstage: kto\n"),
            "run.yaml:3: stage: the stage kto is not modelled; sft, pt and dpo are");
}

// "Quantization is only compatible with the LoRA or OFT method."
TEST(LlamaFactoryRecipe, RefusesToTrainAQuantisedBase) {
  EXPECT_EQ(refusal(ConfigKind::llama_factory,
                    "model_name_or_path: m\nfinetuning_type: full\nquantization_bit: 4\n"),
            "run.yaml:3: quantization_bit: LLaMA-Factory quantises a base for LoRA or OFT only; "
            "write finetuning_type: lora, or remove the key");
}

// pydantic: bf16 is Literal["auto"] | bool | None.
TEST(AxolotlRecipe, RefusesAPrecisionThatIsNeitherAutoNorABool) {
  const std::string rest = "base_model: m\nsequence_len: 64\nmicro_batch_size: 1\nbf16: ";
  EXPECT_EQ(refusal(ConfigKind::axolotl, rest + "maybe\n"),
            "run.yaml:4: bf16: expected auto, true or false, got 'maybe'; "
            "write auto, true or false");
  const auto bf16 = [&](const std::string& value) {
    return read(ConfigKind::axolotl, rest + value + "\n").training_arguments.get("bf16");
  };
  EXPECT_TRUE(bf16("auto").truthy());
  EXPECT_TRUE(bf16("\"yes\"").truthy());
  EXPECT_FALSE(bf16("\"False\"").truthy());
}

// hparams/parser.py: "Some keys are not used by the HfArgumentParser". Keys of its own that have no
// bearing on memory and time are no such keys.
TEST(LlamaFactoryRecipe, HasErrorsForKeysThatItRaisesFor) {
  const Recipe recipe =
      read(ConfigKind::llama_factory,
           "model_name_or_path: m\nstage: sft\nlora_targets: all\nppo_epochs: 4\ntop_p: 0.7\n");
  ASSERT_EQ(recipe.findings.size(), 1u);
  EXPECT_EQ(recipe.findings[0].severity, Severity::error);
  EXPECT_EQ(recipe.findings[0].key, "lora_targets");
  EXPECT_EQ(recipe.findings[0].line, 3);
}

// "ZeRO3 detected, remaining trainable params in float32": DeepSpeed holds them so.
TEST(LlamaFactoryRecipe, CastsNothingUnderZero3) {
  EXPECT_FALSE(read(ConfigKind::llama_factory,
                    "model_name_or_path: m\ndeepspeed: examples/deepspeed/ds_z3_config.json\n")
                   .trainable_dtype);
}

TEST(TorchtuneRecipe, ReadsThePublishedQlora) {
  const Recipe recipe = recipe_of("torchtune_8b_qlora_single_device.yaml");
  EXPECT_EQ(recipe.model, "/tmp/Meta-Llama-3.1-8B-Instruct/");
  EXPECT_EQ(recipe.quantization, "nf4,double,compute=bfloat16");
  EXPECT_EQ(recipe.adapter.get("target_modules"),
            ConfigValue(ConfigValue::List{"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                          "down_proj"}));
  EXPECT_EQ(recipe.trainable_dtype, Dtype::bfloat16);
  ASSERT_TRUE(recipe.own_loop);
  EXPECT_EQ(recipe.own_loop->batch, 2);
  EXPECT_EQ(recipe.own_loop->micro_batches, 8);
  EXPECT_EQ(recipe.own_loop->clip, 0);
  EXPECT_EQ(recipe.own_loop->implementation, "fused");
  EXPECT_EQ(recipe.own_loop->checkpointing, "full");
  EXPECT_FALSE(recipe.length);
  EXPECT_EQ(recipe.loss, "chunks:8");
}

TEST(TorchtuneRecipe, ReadsWhatGoesEarly) {
  const Recipe recipe = read(ConfigKind::torchtune,
                             "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
                             "enable_activation_checkpointing: true\n"
                             "enable_activation_offloading: true\noptimizer_in_bwd: true\n");
  ASSERT_TRUE(recipe.own_loop);
  EXPECT_TRUE(recipe.own_loop->offloads_activations);
  EXPECT_TRUE(recipe.own_loop->steps_in_backward);
  EXPECT_EQ(finding_about(recipe, "optimizer_in_bwd"), nullptr);
}

// torchtune 0.6, modules/transformer.py, unembed: `output = self.output(h).float()` without chunks.
TEST(TorchtuneRecipe, SaysWhatTheLossTakes) {
  const std::string model = "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n";
  EXPECT_EQ(read(ConfigKind::torchtune, model).loss, "float");
  EXPECT_EQ(
      read(ConfigKind::torchtune, model + "loss:\n  _component_: torch.nn.CrossEntropyLoss\n").loss,
      "float");
  EXPECT_EQ(read(ConfigKind::torchtune,
                 model + "loss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\n"
                         "  num_output_chunks: 4\n")
                .loss,
            "chunks:4");
}

// The plug-in is on by itself: CutCrossEntropyArgs has `cut_cross_entropy: bool | None = True`.
TEST(AxolotlRecipe, KnowsItsPlugInForCutCrossEntropy) {
  const std::string model = "base_model: m\n";
  const std::string plugin =
      "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n";
  EXPECT_EQ(read(ConfigKind::axolotl, model + plugin).loss, "cut");
  EXPECT_EQ(read(ConfigKind::axolotl, model + plugin + "cut_cross_entropy: false\n").loss, "");
  const Recipe without = read(ConfigKind::axolotl, model + "cut_cross_entropy: true\n");
  EXPECT_EQ(without.loss, "");
  const Finding* finding = finding_about(without, "cut_cross_entropy");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rule, "ignored-key");
}

// lora_query and lora_value only; 8 sequences of a step in micro-batches of 2 on one device.
TEST(LitgptRecipe, ReadsThePublishedQlora) {
  const Recipe recipe = recipe_of("litgpt_llama_2_7b_qlora.yaml");
  EXPECT_EQ(recipe.quantization, "nf4");
  EXPECT_EQ(recipe.adapter.get("target_modules"),
            ConfigValue(ConfigValue::List{"q_proj", "v_proj"}));
  EXPECT_EQ(recipe.length, 512);
  ASSERT_TRUE(recipe.own_loop);
  EXPECT_EQ(recipe.own_loop->micro_batches, 4);
  EXPECT_EQ(recipe.own_loop->optimizer, "paged_adamw_32bit");
  EXPECT_EQ(recipe.own_loop->checkpointing, "");
  EXPECT_EQ(recipe.world, 1);
}

// full.py on several devices: FSDP with every Block wrapped and checkpointed.
TEST(LitgptRecipe, ShardsWhatSeveralDevicesTrain) {
  const Recipe recipe = recipe_of("litgpt_llama_2_7b_full.yaml");
  EXPECT_TRUE(recipe.adapter.is_null());
  EXPECT_EQ(recipe.world, 4);
  EXPECT_EQ(recipe.own_loop->runtime, "fsdp1");
  EXPECT_EQ(recipe.own_loop->checkpointing, "full");
}

TEST(LitgptRecipe, RefusesQuantisedWeightsOnSeveralDevices) {
  EXPECT_NE(refusal(ConfigKind::litgpt, "checkpoint_dir: m\ndevices: 2\nquantize: bnb.nf4\n")
                .find("run.yaml:3: quantize: litgpt refuses quantised weights on several GPUs"),
            std::string::npos);
}

constexpr const char* swift_script =
    "# 10GB\nCUDA_VISIBLE_DEVICES=0 \\\nswift sft \\\n    --model Qwen/Qwen2.5-7B-Instruct \\\n"
    "    --train_type lora \\\n    --dataset 'a#500' \\\n              'b#500' \\\n"
    "    --torch_dtype bfloat16 --quant_method bnb --quant_bits 4 \\\n    --max_length 2048\n"
    "echo done\n";

// lora_alpha 32, all-linear, gradient_checkpointing, and 16 sequences of a step by default.
TEST(SwiftRecipe, ReadsTheCommandLineOfAScript) {
  const Recipe recipe = read_recipe(written(ConfigKind::ms_swift, swift_script, "train.sh"));
  EXPECT_EQ(recipe.model, "Qwen/Qwen2.5-7B-Instruct");
  EXPECT_EQ(recipe.quantization, "nf4,double,compute=bfloat16");
  EXPECT_EQ(json_text(recipe.adapter),
            "{\"r\": 8, \"lora_alpha\": 32.0, \"lora_dropout\": 0.05, \"target_modules\": "
            "\"all-linear\", \"lists_linear_layers\": true}");
  EXPECT_EQ(recipe.length, 2048);
  EXPECT_EQ(recipe.training_arguments.get("gradient_accumulation_steps"), ConfigValue(16));
  EXPECT_EQ(recipe.training_arguments.get("gradient_checkpointing"), ConfigValue(true));
  EXPECT_TRUE(recipe.findings.empty()) << recipe.findings.front().key;
}

// get_use_logits_to_keep of trainers/mixin.py; DPOConfig's disable_dropout.
TEST(SwiftRecipe, MakesNoLogitsOfPrompts) {
  const auto of = [](const std::string& rest) {
    return read_recipe(written(ConfigKind::ms_swift, "swift " + rest + "\n", "run.sh"));
  };
  EXPECT_EQ(of("sft --model m --max_length 64").loss, "kept");
  const Recipe whole = of("sft --model m --max_length 64 --use_logits_to_keep false");
  EXPECT_EQ(whole.loss, "");
  EXPECT_FALSE(whole.prompt);
  EXPECT_EQ(of("rlhf --rlhf_type dpo --model m --use_logits_to_keep false").prompt, 0);
  const Recipe adapted = of("rlhf --rlhf_type dpo --model m --beta 0.1 --rpo_alpha 0.1");
  EXPECT_EQ(adapted.loss, "dpo-swift");
  EXPECT_EQ(adapted.reference, "adapter-off");
  EXPECT_EQ(adapted.adapter.get("lora_dropout"), ConfigValue(0.0));
  EXPECT_TRUE(adapted.findings.empty()) << adapted.findings.front().key;
  EXPECT_EQ(of("rlhf --rlhf_type dpo --model m --tuner_type full").reference, "copy");
  EXPECT_EQ(complaint_of([&] { of("rlhf --rlhf_type kto --model m"); }),
            "run.sh:1: rlhf_type: kto is not modelled; supervised fine-tuning and dpo are");
}

// _fix_gradient_checkpointing of ms-swift's trainers/mixin.py: not under DDP, unless the file says
// it. axolotl's normalize_config. LLaMA-Factory's use_reentrant_gc: not under FSDP2.
TEST(Recipe, AsksForReentrantCheckpoints) {
  const auto reentrant = [](const Recipe& recipe) {
    return recipe.training_arguments.get("gradient_checkpointing_kwargs")
        .get("use_reentrant")
        .truthy();
  };
  const std::string swift = "model: m\ntuner_type: lora\n";
  const Recipe usual = read(ConfigKind::ms_swift, swift);
  EXPECT_TRUE(reentrant(usual));
  EXPECT_EQ(usual.not_reentrant_under, Runtime::ddp);
  const std::string kwargs = "gradient_checkpointing_kwargs:\n  ";
  const Recipe given = read(ConfigKind::ms_swift, swift + kwargs + "use_reentrant: true\n");
  EXPECT_TRUE(reentrant(given));
  EXPECT_FALSE(given.not_reentrant_under);
  const std::string axolotl = "base_model: m\nmicro_batch_size: 1\ngradient_checkpointing: true\n";
  EXPECT_TRUE(reentrant(read(ConfigKind::axolotl, axolotl)));
  EXPECT_FALSE(read(ConfigKind::axolotl, axolotl).not_reentrant_under);
  EXPECT_FALSE(reentrant(read(ConfigKind::axolotl, axolotl + kwargs + "use_reentrant: false\n")));
  EXPECT_FALSE(reentrant(read(ConfigKind::axolotl, axolotl + "unfrozen_parameters: [lm_head]\n")));
  const std::string factory = "model_name_or_path: m\nfinetuning_type: lora\n";
  EXPECT_TRUE(reentrant(read(ConfigKind::llama_factory, factory)));
  EXPECT_EQ(read(ConfigKind::llama_factory, factory).not_reentrant_under, Runtime::fsdp2);
  EXPECT_FALSE(reentrant(read(ConfigKind::llama_factory, factory + "use_reentrant_gc: false\n")));
}

TEST(SwiftRecipe, AddsReentrantToWhatTheFileSaysOfCheckpoints) {
  const Recipe recipe =
      read(ConfigKind::ms_swift,
           "model: m\ntuner_type: lora\ngradient_checkpointing_kwargs:\n  every_n_layers: 2\n");
  EXPECT_EQ(json_text(recipe.training_arguments.get("gradient_checkpointing_kwargs")),
            R"({"every_n_layers": 2, "use_reentrant": true})");
}

// normalize_config: "if cfg.eval_batch_size is None: cfg.eval_batch_size = cfg.micro_batch_size".
TEST(AxolotlRecipe, EvaluatesWithTheMicroBatch) {
  const auto batch = [](const std::string& rest) {
    return read(ConfigKind::axolotl, "base_model: m\nmicro_batch_size: 3\n" + rest)
        .training_arguments.get("per_device_eval_batch_size");
  };
  EXPECT_EQ(batch(""), ConfigValue(3));
  EXPECT_EQ(batch("eval_batch_size: 5\n"), ConfigValue(5));
}

TEST(SwiftRecipe, NamesTheLineOfAScript) {
  EXPECT_EQ(
      complaint_of([] {
        read_recipe(written(ConfigKind::ms_swift,
                            "swift sft --model m \\\n  --lora_rank none_such\n", "train.sh"));
      }),
      "train.sh:2: lora_rank: expected 1 to 2147483647, got 'none_such'; write a whole number");
}

TEST(Recipe, SaysWhichKeyIsUnknownAndWhatIsNear) {
  const Recipe recipe = read(ConfigKind::axolotl, "base_model: m\nsequnce_len: 4096\n");
  const Finding* finding = finding_about(recipe, "sequnce_len");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rule, "unknown-key");
  EXPECT_EQ(finding->line, 2);
  EXPECT_EQ(finding->mend, "did you mean \"sequence_len\"?");
}

TEST(Recipe, SaysWhatIsNotModelled) {
  const Recipe recipe =
      read(ConfigKind::trl, "model_name_or_path: m\nactivation_offloading: true\n");
  const Finding* finding = finding_about(recipe, "activation_offloading");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rule, "not-modelled");
}

// apply_liger_kernel_to_* without arguments has all four; axolotl's plug-in passes its keys on.
// Source: LLaMA-Factory at 1212919, model/model_utils/liger_kernel.py; axolotl at 0206321,
// integrations/liger/plugin.py.
TEST(Recipe, SaysWhichOfLigersKernelsAreOn) {
  EXPECT_EQ(read(ConfigKind::llama_factory, "enable_liger_kernel: true\n").liger, "on");
  EXPECT_EQ(read(ConfigKind::llama_factory, "model_name_or_path: m\n").liger, "");
  const std::string keys =
      "base_model: m\nliger_rope: true\nliger_glu_activation: true\n"
      "liger_fused_linear_cross_entropy: false\n";
  const Recipe with =
      read(ConfigKind::axolotl, keys + "plugins:\n  - axolotl.integrations.liger.LigerPlugin\n");
  EXPECT_EQ(with.liger, "rope+swiglu");
  EXPECT_EQ(finding_about(with, "plugins"), nullptr);
  const Recipe without = read(ConfigKind::axolotl, keys);
  EXPECT_EQ(without.liger, "");
  const Finding* finding = finding_about(without, "liger_rope");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rule, "ignored-key");
  EXPECT_EQ(finding_about(without, "liger_fused_linear_cross_entropy"), nullptr);
}

TEST(Recipe, IsLintedAsItsTrainerReadsIt) {
  const ConfigFile file = published("axolotl_qlora_fsdp_70b.yaml");
  const std::vector<Finding> findings = lint(file, {});
  // The Trainer of transformers 5 takes words of `fsdp` for the old form (line 64 has the key).
  const auto words = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.key.starts_with("fsdp");
  });
  ASSERT_NE(words, findings.end());
  EXPECT_GT(words->line, 0);
}

Recipe::OwnLoop torchtitan_loop(std::string text) {
  return read_recipe(written(ConfigKind::torchtitan, std::move(text), "run.toml")).own_loop.value();
}

std::string torchtitan_refusal(std::string text) {
  return complaint_of(
      [&] { read_recipe(written(ConfigKind::torchtitan, std::move(text), "run.toml")); });
}

// By hand from the file: selective_ac_option 'op', the shard degree -1 takes the ranks that are
// left.
TEST(TorchtitanRecipe, ReadsTheLlamaOfItsRepository) {
  ASSERT_EQ(published("torchtitan_llama3_8b.toml").kind, ConfigKind::torchtitan);
  const Recipe recipe = recipe_of("torchtitan_llama3_8b.toml");
  EXPECT_EQ(recipe.model, "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(recipe.length, 8192);
  ASSERT_TRUE(recipe.own_loop);
  const Recipe::OwnLoop& loop = *recipe.own_loop;
  EXPECT_EQ(loop.runtime, "torchtitan");
  EXPECT_EQ(loop.batch, 1);
  EXPECT_EQ(loop.sequences, 0);
  EXPECT_EQ(loop.mesh, "");
  EXPECT_EQ(loop.strategy, "full_shard");
  EXPECT_EQ(loop.precision, "bf16_mixed");
  EXPECT_EQ(loop.optimizer, "adamw");
  EXPECT_EQ(loop.implementation, "fused");
  EXPECT_EQ(loop.clip, 1.0);
  EXPECT_EQ(loop.checkpointing, "selective");
  EXPECT_EQ(loop.compile, "");
  EXPECT_EQ(loop.float8, "");
  EXPECT_TRUE(recipe.findings.empty()) << recipe.findings.front().key;
}

TEST(TorchtitanRecipe, ReadsTheNamesOf2024) {
  const Recipe recipe = recipe_of("torchtitan_llama3_70b_2024.toml");
  EXPECT_EQ(recipe.model, "meta-llama/Llama-3.1-70B");
  ASSERT_TRUE(recipe.own_loop);
  EXPECT_EQ(recipe.own_loop->batch, 8);
  EXPECT_EQ(recipe.own_loop->mesh, "tensor=8");
  // build_optimizers of 2024: "fused": fused, "foreach": not fused. --optimizer.fused is off.
  EXPECT_EQ(recipe.own_loop->implementation, "foreach");
  EXPECT_EQ(recipe.own_loop->checkpointing, "full");
  EXPECT_TRUE(recipe.findings.empty()) << recipe.findings.front().key;
}

TEST(TorchtitanRecipe, HasTheDefaultsOfJobConfig) {
  const Recipe recipe = read_recipe(
      written(ConfigKind::torchtitan, "[model]\nflavor = '8B'\n[training]\n", "run.toml"));
  EXPECT_EQ(recipe.length, 2048);
  EXPECT_EQ(recipe.own_loop.value().batch, 8);
  EXPECT_EQ(recipe.own_loop->checkpointing, "every:2");
  EXPECT_EQ(recipe.own_loop->implementation, "fused");
}

TEST(TorchtitanRecipe, ReadsMeshCompilationAndFloat8OfLaterReleases) {
  const Recipe::OwnLoop loop = torchtitan_loop(R"(
[model]
flavor = "8B"
converters = ["float8"]
[training]
local_batch_size = 2
global_batch_size = 64
mixed_precision_param = "bfloat16"
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
fsdp_reshard_after_forward = "never"
[activation_checkpoint]
mode = "none"
[compile]
enable = true
components = ["model"]
[float8]
recipe_name = "rowwise"
)");
  EXPECT_EQ(loop.batch, 2);
  EXPECT_EQ(loop.sequences, 64);
  EXPECT_EQ(loop.mesh, "replicate=2,shard=8");
  EXPECT_EQ(loop.strategy, "shard_grad_op");
  EXPECT_EQ(loop.checkpointing, "none");
  EXPECT_EQ(loop.compile, "blocks");
  EXPECT_EQ(loop.float8, "rowwise");
}

TEST(TorchtitanRecipe, FusesAnOldOptimizerThatSaysSo) {
  EXPECT_EQ(torchtitan_loop("[optimizer]\nfused = true\n[training]\ntensor_parallel_degree = 2\n")
                .implementation,
            "fused");
}

// train.py of 2024 compiles the model's blocks, and not its loss_fn.
TEST(TorchtitanRecipe, CompilesTheLossFrom2025On) {
  EXPECT_EQ(torchtitan_loop("[training]\ncompile = true\ndata_parallel_degree = 4\n").compile,
            "blocks");
  EXPECT_EQ(torchtitan_loop("[training]\ncompile = true\n[parallelism]\n"
                            "data_parallel_shard_degree = 4\n")
                .compile,
            "blocks+loss");
}

// job_config.py (000204a) knows data_parallel_shard_degree alone.
TEST(TorchtitanRecipe, TakesTheNewerOfTwoShardDegrees) {
  const Recipe recipe = read_recipe(written(
      ConfigKind::torchtitan,
      "[training]\ndata_parallel_degree = 4\n[parallelism]\ndata_parallel_shard_degree = 8\n",
      "run.toml"));
  EXPECT_EQ(recipe.own_loop.value().mesh, "shard=8");
  const Finding* finding = finding_about(recipe, "training.data_parallel_degree");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->line, 2);
  EXPECT_EQ(torchtitan_loop("[training]\ndata_parallel_degree = 4\n").mesh, "shard=4");
}

// torchtitan cuts a rank's sequences into micro-batches of one, and does not gather anew for each.
TEST(TorchtitanRecipe, ReadsPipelines) {
  const Recipe::OwnLoop usual = torchtitan_loop(
      "[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 4\n");
  EXPECT_EQ(usual.mesh, "pipeline=4");
  EXPECT_EQ(usual.strategy, "shard_grad_op");
  EXPECT_EQ(usual.pipeline_schedule, "1F1B");
  EXPECT_EQ(usual.pipeline_stages, "torchtitan:1,1");
  EXPECT_EQ(usual.batch, 1);
  EXPECT_EQ(usual.micro_batches, 8);
  const Recipe::OwnLoop given = torchtitan_loop(
      "[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\n"
      "data_parallel_shard_degree = 4\nfsdp_reshard_after_forward = 'always'\n"
      "pipeline_parallel_schedule = 'GPipe'\npipeline_parallel_microbatch_size = 2\n"
      "module_fqns_per_model_part = [['tok_embeddings', 'layers.0', 'layers.1', 'layers.2'],\n"
      "                              ['layers.3', 'norm', 'output']]\n");
  EXPECT_EQ(given.mesh, "pipeline=2,shard=4");
  EXPECT_EQ(given.strategy, "full_shard");
  EXPECT_EQ(given.pipeline_schedule, "GPipe");
  EXPECT_EQ(given.pipeline_stages, "3,1");
  EXPECT_EQ(given.batch, 2);
  EXPECT_EQ(given.micro_batches, 4);
}

TEST(TorchtitanRecipe, ReadsHowLayersAreDealtOut) {
  const Recipe::OwnLoop loop = torchtitan_loop(
      "[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\n"
      "pipeline_parallel_schedule = 'Interleaved1F1B'\npipeline_parallel_layers_per_stage = 4\n"
      "pipeline_parallel_first_stage_less_layers = 0\n"
      "pipeline_parallel_last_stage_less_layers = 2\n");
  EXPECT_EQ(loop.pipeline_stages, "torchtitan:0,2,4");
}

TEST(TorchtitanRecipe, ReadsRanksOfExperts) {
  EXPECT_EQ(torchtitan_loop("[parallelism]\ndata_parallel_shard_degree = 8\n"
                            "expert_parallel_degree = 4\n")
                .mesh,
            "shard=8,expert=4");
  EXPECT_EQ(torchtitan_loop("[parallelism]\nexpert_parallel_degree = 1\n").mesh, "");
  EXPECT_EQ(torchtitan_loop("[model]\nname = 'qwen3'\n[parallelism]\n"
                            "expert_parallel_degree = 2\n")
                .mesh,
            "expert=2");
}

TEST(TorchtitanRecipe, CompilesNoRings) {
  const Recipe recipe = read_recipe(written(
      ConfigKind::torchtitan,
      "[training]\ncompile = true\n[parallelism]\ncontext_parallel_degree = 4\n", "run.toml"));
  EXPECT_EQ(recipe.own_loop.value().compile, "");
  ASSERT_EQ(recipe.assumed.size(), 1U);
  EXPECT_NE(recipe.assumed[0].find("not compiled"), std::string::npos);
  EXPECT_EQ(torchtitan_loop("[compile]\nenable = true\n[parallelism]\n"
                            "tensor_parallel_degree = 4\npipeline_parallel_degree = 2\n")
                .compile,
            "blocks+loss");
}

TEST(TorchtitanRecipe, RefusesWhatIsNotPredicted) {
  EXPECT_NE(
      torchtitan_refusal("[training]\nlocal_batch_size = 8\n[parallelism]\n"
                         "pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 3\n")
          .find("run.toml:5: parallelism.pipeline_parallel_microbatch_size: 8 sequences"),
      std::string::npos);
  EXPECT_NE(torchtitan_refusal("[parallelism]\npipeline_parallel_degree = 2\n"
                               "module_fqns_per_model_part = ['layers.0']\n")
                .find("run.toml:3: parallelism.module_fqns_per_model_part: expected lists"),
            std::string::npos);
  EXPECT_NE(torchtitan_refusal("[model]\nname = 'llama4'\n").find("llama4"), std::string::npos);
  EXPECT_NE(torchtitan_refusal("[model]\nconverters = ['float8', 'mx']\n").find("mx is not"),
            std::string::npos);
  EXPECT_NE(
      torchtitan_refusal("[training]\ndtype = 'bfloat16'\nmixed_precision_param = 'float32'\n")
          .find("run.toml:3: training.mixed_precision_param: computing in float32 with a dtype "
                "of bfloat16 is not predicted; give mixed_precision_param = \"bfloat16\", or "
                "dtype = \"float32\""),
      std::string::npos);
  EXPECT_NE(torchtitan_refusal("[training]\nmixed_precision_param = 'float16'\n")
                .find("run.toml:2: training.mixed_precision_param: computing in float16 is not"),
            std::string::npos);
  EXPECT_NE(torchtitan_refusal("[training]\nmixed_precision_reduce = 'bfloat16'\n")
                .find("run.toml:2: training.mixed_precision_reduce: reducing gradients in bfloat16 "
                      "is not predicted; give \"float32\""),
            std::string::npos);
  EXPECT_NE(torchtitan_refusal("[training\n").find("run.toml:1: is not TOML"), std::string::npos);
}

TEST(TorchtitanRecipe, NamesKeysThatNothingReads) {
  const Recipe recipe =
      read_recipe(written(ConfigKind::torchtitan, "[training]\nseq_length = 4096\n", "run.toml"));
  const Finding* finding = finding_about(recipe, "training.seq_length");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->line, 2);
}

}  // namespace
}  // namespace shardscope
