#include "sim/validate/fine_tuning_validation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "sim/validate/fine_tuning_scenario.h"
#include "sim/validate/known_model.h"
#include "sim/validate/sample_lengths.h"
#include "sim/validate/unsloth_notebooks.h"

namespace shardscope {
namespace {

constexpr const char* header =
    "source,model,method,precision,gpus,gpu,strategy,micro_batch,seq,checkpointing,optimizer,"
    "peak_memory_gib,memory_kind,notes\n";

FineTuningRow row_of(const std::string& fields) {
  return fine_tuning_rows(CsvTable::parse(header + fields + "\n", "runs.csv")).front();
}

std::int64_t elements_of(std::string_view name) {
  const auto known = known_model(name);
  return known ? known->model.parameter_elements() : 0;
}

// Qwen's README counts 8 micro-batches as an iteration: 8 * 2,048 / 8.4 s. fsdp_qlora's table has
// the samples of both GPUs: 1,024 * 2,048 / 437 s / 2.
TEST(FineTuningRow, TakesTokensASecondFromTheNotes) {
  const auto rate = [](const std::string& fields) { return measured_tokens_per_s(row_of(fields)); };
  const auto qwen = rate(
      "a/b,m,lora,bf16,1,A100,single device,1,2048,on,,37.4,device,"
      "printed 37.4G / 8.4s/it; grad accumulation 8 so 8.4s/it covers 8 micro-steps");
  ASSERT_TRUE(qwen);
  EXPECT_NEAR(*qwen, 1950.48, 0.01);
  const auto answer = rate(
      "a/b,m,lora,bf16,2,RTX 4090,FSDP,4,2048,on,,22.04,reserved,"
      "\"dummy dataset, 1,024 samples in 437 s (whole run, all GPUs)\"");
  ASSERT_TRUE(answer);
  EXPECT_NEAR(*answer, 2399.49, 0.01);
  EXPECT_FALSE(rate("a/b,m,lora,bf16,1,A100,single device,1,2048,on,,1,device,no rate"));
  EXPECT_FALSE(
      rate("a/b,m,lora,bf16,1,A100,single device,8,2048,on,,1,device,5.1s/it; seq is a cap"));
}

// Sums over the safetensors of each repository on the Hub.
TEST(KnownModel, HasAsManyParametersAsPublished) {
  EXPECT_EQ(elements_of("Llama 2 7 B"), 6'738'415'616);
  EXPECT_EQ(elements_of("Llama-2-13b"), 13'015'864'320);
  EXPECT_EQ(elements_of("Llama-2-70B"), 68'976'648'192);
  EXPECT_EQ(elements_of("Meta-Llama-3.1-8B"), 8'030'261'248);
  EXPECT_EQ(elements_of("llama-3.2-1b"), 1'235'814'400);
  EXPECT_EQ(elements_of("Llama-3.2-3B"), 3'212'749'824);
  EXPECT_EQ(elements_of("tiny-llama"), 1'100'048'384);
  EXPECT_EQ(elements_of("mistral-7b"), 7'241'732'096);
  EXPECT_EQ(elements_of("Phi-3-mini-4k-instruct"), 3'821'079'552);
  EXPECT_EQ(elements_of("Yi-34B"), 34'388'917'248);
  EXPECT_EQ(elements_of("Qwen2.5-7B-Instruct"), 7'615'616'512);
  EXPECT_EQ(elements_of("Qwen2.5-14B"), 14'770'033'664);
  EXPECT_EQ(elements_of("Qwen-7B"), 7'721'324'544);
  EXPECT_EQ(elements_of("Qwen3-4B"), 4'022'468'096);
  EXPECT_EQ(elements_of("Qwen3-8B"), 8'190'735'360);
  EXPECT_EQ(elements_of("Qwen3-32B"), 32'762'123'264);
  EXPECT_EQ(elements_of("gemma-2-2b"), 2'614'341'888);
  EXPECT_EQ(elements_of("gemma-2-9b-it"), 9'241'705'984);
  EXPECT_EQ(elements_of("gemma-3-1b-it"), 999'885'952);
  EXPECT_EQ(elements_of("phi-1.5 1.3 B"), 1'418'270'720);
  EXPECT_EQ(elements_of("Phi-3-medium-4k-instruct"), 13'960'238'080);
  EXPECT_EQ(elements_of("phi-4"), 14'659'507'200);
  EXPECT_EQ(elements_of("Mistral-Nemo-Instruct-2407"), 12'247'782'400);
  EXPECT_EQ(elements_of("Mistral-Small-24B-Instruct-2501"), 23'572'403'200);
  EXPECT_EQ(elements_of("SmolLM2-1.7B"), 1'711'376'384);
  EXPECT_EQ(elements_of("pythia-6.9b"), 6'857'302'016);
  EXPECT_EQ(elements_of("pythia-12b"), 11'846'072'320);
  EXPECT_EQ(elements_of("pythia-160m"), 162'322'944);
  EXPECT_EQ(elements_of("pythia-1b"), 1'011'781'632);
  EXPECT_EQ(elements_of("pythia-1.4b"), 1'414'647'808);
  EXPECT_EQ(elements_of("pythia-2.8b"), 2'775'208'960);
  EXPECT_EQ(elements_of("Yi-6B"), 6'061'035'520);
  EXPECT_EQ(elements_of("Qwen2-0.5B"), 494'032'768);
  EXPECT_EQ(elements_of("Qwen2-72B"), 72'706'203'648);
  EXPECT_EQ(elements_of("Qwen3-1.7B"), 1'720'574'976);
  EXPECT_EQ(elements_of("Phi-4-mini-instruct"), 3'836'021'760);
  EXPECT_EQ(elements_of("CodeLlama-7b-hf"), 6'738'546'688);
  EXPECT_EQ(elements_of("CodeLlama-34b-hf"), 33'743'970'304);
  EXPECT_EQ(elements_of("llama-65b"), 65'285'660'672);
  EXPECT_EQ(elements_of("open_llama_3b"), 3'426'473'600);
  EXPECT_EQ(elements_of("SmolLM2-135M"), 134'515'008);
  EXPECT_EQ(elements_of("gemma-7b"), 8'537'680'896);
  EXPECT_EQ(elements_of("gemma-2-27b-it"), 27'227'128'320);
  EXPECT_EQ(elements_of("gemma-3-270m"), 268'098'176);
  EXPECT_EQ(elements_of("Seed-OSS-36B-Instruct"), 36'151'104'512);
}

// litgpt keeps a head of 128,256 x 3,072 beside the embedding.
TEST(KnownModel, MayKeepTheHeadApart) {
  EXPECT_EQ(known_model("llama-3.2-3b", {.may_tie = false})->model.parameter_elements(),
            3'212'749'824 + std::int64_t{128'256} * 3'072);
}

TEST(KnownModel, IsNoneForAnotherName) { EXPECT_FALSE(known_model("Mamba-2.8b")); }

std::int64_t trained_of(const FineTuningRow& row) {
  return fine_tuning_scenario(row).model.trainable_elements();
}

// What litgpt prints for LoRA of rank 8 on query and value.
TEST(FineTuningScenario, TrainsAsManyParametersAsLitgptPrints) {
  const auto trained = [](const std::string& model) {
    return trained_of(row_of("Lightning-AI/litgpt tutorials," + model +
                             ",lora,bf16-true,1,A100-SXM4-40GB,single device,2,1304,off,AdamW,"
                             "27.074,allocated,LoRA r=8 on q;v"));
  };
  EXPECT_EQ(trained("Llama 2 7 B"), 4'194'304);
  EXPECT_EQ(trained("Llama 2 13 B"), 6'553'600);
  EXPECT_EQ(trained("phi-1.5 1.3 B"), 1'572'864);
  EXPECT_EQ(trained("StableLM Alpha 3 B"), 2'097'152);
  EXPECT_EQ(trained("Falcon 40 B"), 12'042'240);
}

// What PEFT prints: 28 layers, of queries 64 * (3,072 + 3,072 + 1), of values 64 * (3,072 + 1,024
// + 1). The number of ranks trains in peft 0.21 alone.
TEST(FineTuningScenario, TrainsAsManyParametersAsPeftPrintsOfAdaLora) {
  EXPECT_EQ(trained_of(row_of(
                "huggingface/peft method_comparison/MetaMathQA,Llama-3.2-3B,adalora,bfloat16,1,"
                "NVIDIA L40S,single device,4,768,off,AdamW,21.2,reserved,18353664 trainable")),
            18'353'664);
}

// transformer_configs of pretrain_llama2.py, "1B": 24 blocks of 4 * 1,536^2 + 3 * 1,536 * 6,144 and
// two norms, a norm, embedding and head of 32,000 words. Its tokens take 2 bytes each.
TEST(FineTuningScenario, TrainsTorchaosOwnLlamaBesideItsData) {
  const FineTuningScenario scenario = fine_tuning_scenario(
      row_of("pytorch/ao torchao/prototype/quantized_training,Llama-2-1B (TinyLlama shape),"
             "full (pre-training step),bf16 compile,1,RTX 4070 Ti SUPER 16GB,single device,4,2048,"
             "on,,10.25,peak as printed,"));
  EXPECT_EQ(scenario.model.parameter_elements(),
            24 * (4 * 1536 * 1536 + 3 * 1536 * 6144 + 2 * 1536) + 1536 + 2 * 32'000 * 1536);
  EXPECT_EQ(scenario.device_data, Bytes{1'082'458'694});
  EXPECT_EQ(scenario.profile.memory + scenario.device_data,
            find_hardware_profile("rtx4070_ti_super", "test").memory);
}

TEST(FineTuningScenario, TrainsTorchaosLlamaInInt8) {
  const auto kind_of = [](const std::string& precision) {
    return fine_tuning_scenario(
               row_of(
                   "pytorch/ao torchao/prototype/quantized_training,Llama-2-1B (TinyLlama shape),"
                   "full (pre-training step)," +
                   precision +
                   ",1,RTX 4070 Ti SUPER 16GB,single device,4,2048,on,,9.84,peak as printed,"))
        .training.setup.int8;
  };
  EXPECT_EQ(kind_of("int8 weight-only QT eager"), eager::Int8Training::weights);
  EXPECT_EQ(kind_of("int8 mixed precision compile"), eager::Int8Training::products);
  EXPECT_EQ(kind_of("bf16 compile"), eager::Int8Training::none);
}

// torchtitan compiled its loss again from April 2025 on.
TEST(FineTuningScenario, CompilesTorchtitansLossWhereItWasCompiled) {
  const auto scope = [](const std::string& notes) {
    return fine_tuning_scenario(
               row_of("pytorch/ao docs/source/workflows/training.md,Llama-3-8B,"
                      "full (pre-training step),bf16,8,H100,FSDP2,1,8192,selective (per-op),,47.65,"
                      "reserved,torchtitan; torch.compile; " +
                      notes))
        .training.setup.compiled;
  };
  EXPECT_EQ(scope("torch 2.7.0a0"), CompileScope::blocks);
  EXPECT_EQ(scope("torch 2.9.0"), CompileScope::blocks_and_loss);
}

// litgpt's own model of each has as many parameters as transformers', but for a head that is not
// tied and, in Falcon, biases of norms.
TEST(KnownModel, HasLitgptsLayers) {
  const auto elements = [](std::string_view name) {
    return known_model(name, {.may_tie = false, .litgpt = true})->model.parameter_elements();
  };
  EXPECT_EQ(elements("Llama-2-7b"), 6'738'415'616);
  EXPECT_EQ(elements("mistral-7b"), 7'241'732'096);
  EXPECT_EQ(elements("Phi-3-mini-4k-instruct"), 3'821'079'552);
  EXPECT_EQ(elements("phi-1.5"), 1'418'270'720);
  EXPECT_EQ(elements("pythia-6.9b"), 6'857'302'016);
  EXPECT_EQ(elements("llama-3.2-3b"), 3'212'749'824 + std::int64_t{128'256} * 3'072);
}

// lightning_fabric 2.2 quantises a copy in float16, the head too; litgpt trains with PagedAdamW
// whatever its file names.
TEST(FineTuningScenario, QuantizesAsLightningDoes) {
  const FineTuningScenario scenario = fine_tuning_scenario(row_of(
      "Lightning-AI/litgpt config_hub,llama-2-7b,qlora,bf16-true + bnb.nf4,1,A10G-24GB,single "
      "device,2,512,off,torch.optim.AdamW,12.74,allocated,lora_r=32"));
  const Quantization& quantization = *scenario.training.setup.fine_tuning->quantization;
  EXPECT_EQ(quantization.quantized_from, Dtype::float16);
  EXPECT_TRUE(quantization.quantizes_output);
  EXPECT_EQ(scenario.training.setup.loop.optimizer.bitsandbytes,
            (eager::BitsAndBytesOptimizer{.bits = 32, .paged = true}));
}

// torchtitan's llama3_8b.toml under torchao's benchmark, and torchao's script of 8-bit training,
// which prints max_memory_allocated() / 1e9.
TEST(FineTuningScenario, TrainsAsTorchaosBenchmarksDo) {
  const FineTuningScenario titan = fine_tuning_scenario(
      row_of("pytorch/ao docs/source/workflows/training.md,Llama-3-8B,full (pre-training step),"
             "bf16,8,H100,FSDP2,1,8192,selective (per-op),,47.65,reserved,torch.compile"));
  EXPECT_EQ(titan.model.parameters.front().dtype, Dtype::float32);
  EXPECT_TRUE(titan.training.setup.model.torchtitan_attention);
  EXPECT_EQ(titan.training.setup.compiled, CompileScope::blocks_and_loss);
  EXPECT_EQ(titan.training.setup.checkpointing.modules.size(), 32U);
  const FineTuningScenario float8 = fine_tuning_scenario(
      row_of("pytorch/ao docs/source/workflows/training.md,Llama-3-8B,full (pre-training step),"
             "float8 tensorwise,8,H100,FSDP2,1,8192,selective (per-op),,47.77,reserved,"));
  EXPECT_EQ(float8.training.setup.float8.recipe, eager::parallel::Float8Recipe::tensorwise);
  EXPECT_TRUE(float8.training.setup.float8.fsdp_all_gather);
  const ValidatedFineTuning baseline = validate_row(row_of(
      "pytorch/ao torchao/prototype/quantized_training/README.md,Llama-2-1B,full (pre-training "
      "step),bf16 compile,1,RTX 4070 Ti SUPER 16GB,single device,4,2048,on,,10.25,peak,"));
  EXPECT_EQ(baseline.kind, MemoryKind::allocated);
  EXPECT_EQ(baseline.measured, Bytes{10'250'000'000});
  EXPECT_TRUE(baseline.predicted) << baseline.skipped;
}

// PEFT's method comparison prints 18,350,080 for rank 64 on v_proj and q_proj of Llama-3.2-3B.
TEST(FineTuningScenario, TakesRankAndTargetsFromTheNotes) {
  EXPECT_EQ(trained_of(row_of("huggingface/peft method_comparison,Llama-3.2-3B,lora,bfloat16,1,"
                              "NVIDIA L40S,single device,4,768,off,AdamW,21.012,reserved,"
                              "r=64 targets=v_proj+q_proj use_rslora; 18350080 trainable")),
            18'350'080);
}

// Qwen's finetune.py trains wte and lm_head beside the adapters of PEFT 0.5, which are float32,
// while the two stay in the bfloat16 of the base.
TEST(FineTuningScenario, CastsNothingThatQwenTrains) {
  const FineTuningScenario scenario = fine_tuning_scenario(
      row_of("QwenLM/Qwen README,Qwen-1.8B,lora,bf16,1,A100-SXM4-80GB,single device,1,512,on,,14.0,"
             "unspecified,LoRA (emb); grad accumulation 8"));
  EXPECT_FALSE(scenario.training.setup.trainable_dtype);
  ASSERT_TRUE(scenario.training.setup.fine_tuning);
  EXPECT_FALSE(scenario.training.setup.fine_tuning->trainable_dtype);
  EXPECT_EQ(scenario.training.setup.model.loss, eager::LanguageLoss::copied);
  EXPECT_TRUE(scenario.training.setup.loop.optimizer.denominator_apart);
  // Hugging Face, Model training anatomy: 1343 MiB of kernels.
  EXPECT_EQ(scenario.profile.context_memory, Bytes{1343LL << 20});
}

// The file of accelerate beside the command has fsdp_activation_checkpointing; 28 layers.
TEST(FineTuningScenario, CheckpointsAsTheFileBesideMsSwiftsCommandSays) {
  const FineTuningScenario scenario = fine_tuning_scenario(
      row_of("modelscope/ms-swift examples/train/multi-gpu/fsdp2_lora/train.sh,Qwen2.5-7B-Instruct,"
             "lora,bfloat16,2,unstated,FSDP2,1,2048,off,adamw default,14.7,device,"));
  ASSERT_TRUE(scenario.training.setup.fine_tuning);
  EXPECT_EQ(scenario.training.setup.fine_tuning->checkpointed_layers.size(), 28u);
}

// litgpt's tables of 2023 and 2024 are older than bitsandbytes 0.43.2; its loop has variables
// `logits` and `loss`.
TEST(FineTuningScenario, KeepsWhatOldBitsAndBytesKept) {
  const FineTuningScenario scenario = fine_tuning_scenario(row_of(
      "Lightning-AI/litgpt config_hub,tiny-llama,qlora,bf16-true + bnb.nf4,1,A10G-24GB,single "
      "device,8,512,off,torch.optim.AdamW,15.125,allocated,lora_r=32"));
  ASSERT_TRUE(scenario.training.setup.fine_tuning->quantization);
  EXPECT_TRUE(scenario.training.setup.fine_tuning->quantization->keeps_inputs);
  EXPECT_TRUE(scenario.training.setup.loop.holds_logits);
}

// The notebooks load in float16 on a T4, double-quantised, and scale the loss; Unsloth publishes
// Phi-3 with the projections of Mistral.
TEST(FineTuningScenario, TrainsAsUnslothDoes) {
  const FineTuningScenario scenario = fine_tuning_scenario(row_of(
      "unslothai/notebooks nb,Phi-3-medium-4k-instruct,qlora,fp16,1,Tesla T4,single device,2,"
      "2048,unsloth,adamw_8bit,9.623,reserved,\"grad_accum 4; r=16; not packed unless the "
      "notebook says so\""));
  const eager::TrainingSetup& setup = scenario.training.setup;
  ASSERT_TRUE(setup.fine_tuning->unsloth);
  EXPECT_TRUE(setup.fine_tuning->unsloth->offloads_inputs);
  EXPECT_EQ(setup.fine_tuning->base->family, "mistral");
  EXPECT_EQ(setup.fine_tuning->base->dtype, Dtype::float16);
  EXPECT_EQ(setup.fine_tuning->quantization->compute_dtype, Dtype::float16);
  EXPECT_TRUE(setup.fine_tuning->quantization->double_quantization);
  EXPECT_EQ(setup.forward_autocast, Dtype::float16);
  EXPECT_TRUE(setup.loop.scales_loss);
  EXPECT_TRUE(scenario.training.allocator.expandable_segments);
}

std::int64_t trained_elements(const FineTuningScenario& scenario) {
  std::int64_t elements = 0;
  for (const Parameter& p : scenario.model.parameters)
    if (p.trainable) elements += p.elements();
  return elements;
}

// The trainable parameters that litgpt's table states. 30 of 32 layers have 10 x 4,096 of a prompt
// and 32 gates: 1,229,760. The second version has two numbers for each of 42,496 results a layer
// and 32,000 of the head, and 65 norms of 4,096: 4,279,744.
TEST(FineTuningScenario, TrainsWhatLitgptsAdaptersTrain) {
  const auto row = [](const char* model, const char* method) {
    return row_of(std::string("Lightning-AI/litgpt tutorials/resource-tables.md,") + model + "," +
                  method +
                  ",bf16-true,1,A100-SXM4-40GB,single device,1,1034,off,AdamW,9,allocated,");
  };
  EXPECT_EQ(trained_elements(fine_tuning_scenario(row("Llama 2 7 B", "adapter"))), 1'229'760);
  EXPECT_EQ(trained_elements(fine_tuning_scenario(row("Llama 2 7 B", "adapter_v2"))), 4'279'744);
  EXPECT_EQ(trained_elements(fine_tuning_scenario(row("StableLM Alpha 3 B", "adapter"))), 573'888);
}

// In axolotl's mimo-7b-qlora.yaml the plug-in of cut-cross-entropy is commented out; its
// mistral-small-3.1-24B-lora.yml neither packs nor pads samples.
TEST(FineTuningScenario, FollowsTheFilesOfAxolotl) {
  const FineTuningScenario mimo = fine_tuning_scenario(row_of(
      "axolotl-ai-cloud/axolotl examples/mimo/mimo-7b-qlora.yaml,MiMo-7B-RL,qlora,bf16 + 4bit,"
      "1,unstated,single device,2,2048,on,adamw_bnb_8bit,17.2,VRAM,lora_r 32; cut cross "
      "entropy"));
  EXPECT_EQ(mimo.training.setup.model.loss, eager::LanguageLoss::upcast);
  EXPECT_TRUE(mimo.training.allocator.expandable_segments);
  EXPECT_EQ(why_not_predicted(row_of(
                "axolotl-ai-cloud/axolotl examples/glm47-flash/lora.yaml,GLM-4.7-Flash,lora,bf16,1,"
                "80GB GPU,single device,2,2048,on,adamw_torch_8bit,40,VRAM,lora_r 32")),
            "its file loads experts in 8 bits, which is not modelled");
  // Its trinity-nano-preview-qlora.yaml of December 2025 trusts the model's own file, whose 54
  // layers of a mixture have 128 experts in modules of their own.
  const FineTuningScenario trinity = fine_tuning_scenario(
      row_of("axolotl-ai-cloud/axolotl examples/trinity/trinity-nano-preview-qlora.yaml,"
             "Trinity-Nano-Preview,qlora,bf16 + 4bit,1,unstated,single device,2,2048,on,"
             "adamw_bnb_8bit,24.9,VRAM,lora_r 32; cut cross entropy"));
  EXPECT_EQ(trinity.training.setup.model.loss, eager::LanguageLoss::upcast);
  EXPECT_EQ(std::ranges::count_if(trinity.model.parameters,
                                  [](const Parameter& p) {
                                    return p.trainable && p.name.find(".experts.") != p.name.npos;
                                  }),
            54 * 128 * 3 * 2);
  EXPECT_EQ(why_not_predicted(row_of(
                "axolotl-ai-cloud/axolotl examples/mistral-small/mistral-small-3.1-24B-lora.yml,"
                "Mistral-Small-3.1-24B-Instruct-2503,lora,bf16,1,unstated,single device,2,2048,on,"
                "adamw_bnb_8bit,29.4,VRAM,lora_r 32")),
            "samples are shorter than the stated length, by how much is not stated");
}

// lfm2-8b-a1b-lora.yaml loads in 8 bits and names q, k and v of six attention layers: 6 x 32 x
// (2,048 + 2,048 + 2 x (2,048 + 512)) trained elements. Three layers each of 32 experts in 22
// blocks are linear.
TEST(FineTuningScenario, LoadsExpertsThatAreModulesIn8Bits) {
  const FineTuningScenario scenario = fine_tuning_scenario(row_of(
      "axolotl-ai-cloud/axolotl examples/LiquidAI/lfm2-8b-a1b-lora.yaml,LFM2-8B-A1B,lora,bf16,1,"
      "48GB GPU,single device,4,4096,on,adamw_torch_fused,16.2,VRAM,lora_r 32"));
  EXPECT_EQ(trained_elements(scenario), 1'769'472);
  EXPECT_EQ(std::ranges::count_if(scenario.model.parameters,
                                  [](const Parameter& p) {
                                    return p.dtype == Dtype::int8 &&
                                           p.name.find(".experts.") != p.name.npos;
                                  }),
            22 * 32 * 3);
  EXPECT_TRUE(scenario.training.setup.fine_tuning->checkpointing.reentrant);
}

// Figures that are older than the plug-in in their file. Four packed samples of 4,096 tokens are
// one of 16,384, whose logits axolotl cut into 8.
TEST(FineTuningScenario, TakesAxolotlsFilesAsTheyWereMeasured) {
  const auto training = [](const char* file, const char* model, const char* method) {
    return fine_tuning_scenario(
               row_of(std::string("axolotl-ai-cloud/axolotl examples/") + file + "," + model + "," +
                      method +
                      ",1,48GB GPU,single device,4,4096,on,adamw_torch_fused,25,VRAM,"
                      "lora_r 32; cut cross entropy"))
        .training.setup;
  };
  const auto chunked = training("LiquidAI/lfm2-350m-fft.yaml", "LFM2-350M", "full,bf16");
  EXPECT_EQ(chunked.model.logit_chunks, 8);
  EXPECT_EQ(chunked.loop.loss, eager::LossPlace::in_model);
  EXPECT_EQ(chunked.loop.batch, 1);
  EXPECT_EQ(chunked.loop.length, 16'384);
  const auto whole =
      training("magistral/magistral-small-qlora.yaml", "Magistral-Small-2506", "qlora,bf16 + 4bit");
  EXPECT_EQ(whole.model.loss, eager::LanguageLoss::upcast);
}

// Two samples of 550 tokens at most stand behind each other; the dense script's comment has whole
// training first. Experts get adapters, too; loss_scale.sh trains embedding and output layer.
TEST(FineTuningScenario, TrainsAdaptersWithMegatron) {
  const auto settings = [](const char* script, const char* fields, const char* notes) {
    return *fine_tuning_scenario(row_of(std::string("modelscope/ms-swift examples/megatron/lora/") +
                                        script + "," + fields +
                                        ",recompute full,adamw default,60,device," + notes))
                .megatron;
  };
  const auto dense =
      settings("dense.sh", "Qwen2.5-7B-Instruct,lora,bfloat16,2,unstated,Megatron TP=2,2,2048",
               "\"comment \"\"full: 2 * 70GiB # lora: 2 * 14GiB\"\"; seq is a cap\"");
  EXPECT_EQ(dense.adapters.rank, 0);
  EXPECT_EQ(dense.micro_batch, 1);
  EXPECT_GT(dense.shape.seq, 550);
  EXPECT_LE(dense.shape.seq, 2 * 550);
  const auto sparse =
      settings("loss_scale.sh", "Qwen3-30B-A3B,lora,bfloat16,2,unstated,Megatron EP=2,8,2048",
               "seq is a cap");
  EXPECT_EQ(sparse.adapters, (megatron::Adapters{.rank = 8, .trains_embeddings = true}));
  EXPECT_EQ(sparse.expert, 2);
  EXPECT_EQ(sparse.tensor, 1);
  EXPECT_TRUE(sparse.compiled_loss);
}

// Each row of torchtune's table turns one more setting on: the fourth has compiled layers and loss,
// eight chunks and checkpointing.
TEST(FineTuningScenario, AddsUpTorchtunesTable) {
  const FineTuningScenario scenario = fine_tuning_scenario(row_of(
      "pytorch/torchtune README,Llama-3.2-3B,full,bf16,1,A100,single device,2,4096,on,config "
      "default,24.9,active,step 4: +activation checkpointing; each row adds to the one above"));
  EXPECT_EQ(scenario.training.setup.compiled, CompileScope::blocks_and_loss);
  EXPECT_EQ(scenario.training.setup.loop.loss_chunks, 8);
  EXPECT_FALSE(scenario.training.setup.loop.steps_in_backward);
  const auto loop_of = [](const char* method, const char* step) {
    return fine_tuning_scenario(row_of(std::string("pytorch/torchtune README,Llama-3.2-3B,") +
                                       method +
                                       ",bf16,1,A100,single device,2,4096,on,config default,21.8,"
                                       "active," +
                                       step + "; each row adds to the one above"))
        .training.setup.loop;
  };
  EXPECT_TRUE(loop_of("full", "step 6: +activation offloading").steps_in_backward);
  EXPECT_TRUE(loop_of("full", "step 6: +activation offloading").offloads_activations);
  EXPECT_FALSE(loop_of("lora", "step 8: LoRA").steps_in_backward);
  EXPECT_TRUE(loop_of("lora", "step 8: LoRA").offloads_activations);
}

// "95.1G", which the row takes for the sum over four GPUs: 23.775 GiB each.
TEST(FineTuningValidation, ComparesASumOverGpusWithOneOfThem) {
  const ValidatedFineTuning row = validate_row(row_of(
      "QwenLM/Qwen README,Qwen-1.8B,lora,bf16,4,A100-SXM4-80GB,ZeRO-2,1,256,on,,95.1,\"unspecified "
      "; looks like the SUM over 4 GPUs\",LoRA (multinode)"));
  ASSERT_TRUE(row.measured);
  EXPECT_NEAR(static_cast<double>(row.measured->count), 23.775 * 1024 * 1024 * 1024, 1.0);
}

// 8 micro-batches of 2 * 512 tokens in 3.16 s: --per_device_train_batch_size 2 of
// finetune_lora_ds.sh.
TEST(FineTuningValidation, TakesTheScriptsBatchForQwenOnSeveralNodes) {
  const ValidatedFineTuning row = validate_row(
      row_of("QwenLM/Qwen README,Qwen-1.8B,lora,bf16,4,A100-SXM4-80GB,ZeRO-2,1,512,on,,77.6,\"GB; "
             "the SUM over 4 GPUs\",LoRA (multinode); 3.16s/it; grad accumulation 8"));
  ASSERT_TRUE(row.measured_rate);
  EXPECT_NEAR(*row.measured_rate, 8 * 2 * 512 / 3.16, 0.01);
  EXPECT_THAT(row.assumed, ::testing::Contains("a micro-batch of 2, as its script has, not 1"));
}

TEST(FineTuningRow, KnowsARunThatRanOutOfMemory) {
  const FineTuningRow row = row_of("a/b c,m,lora,bf16,1,A100,DDP,1,512,on,AdamW,OOM,allocated,");
  EXPECT_TRUE(row.out_of_memory);
  EXPECT_FALSE(row.peak_gib);
}

TEST(FineTuningRow, SaysWhatCannotBeRead) {
  EXPECT_EQ(
      why_not_predicted(row_of("a/b c,m,lora,bf16,two,A100,DDP,1,512,on,AdamW,10.5,allocated,")),
      "gpus: expected 1 to 65536, got \"two\"");
}

TEST(FineTuningRow, NamesWhatIsNotModelled) {
  EXPECT_EQ(why_not_predicted(row_of("QwenLM/Qwen README,Qwen-7B,qlora,fp16 + GPTQ int4,1,A100,"
                                     "DeepSpeed ZeRO-3,1,1024,on,,12.3,device,")),
            "a quantised base under DeepSpeed is not modelled");
  EXPECT_EQ(why_not_predicted(row_of("unslothai/notebooks nb,gemma-3-4b-it,qlora,fp16,1,Tesla T4,"
                                     "single device,1,1024,unsloth,adamw_8bit,7.5,reserved,")),
            "Unsloth's method qlora is not modelled for gemma3_text");
  EXPECT_EQ(why_not_predicted(row_of("pytorch/torchtune README,Mamba-2.8b,full,bf16,1,A100,single "
                                     "device,1,1024,on,AdamW,7.5,active,")),
            "the shape of Mamba-2.8b is not known");
}

TEST(MemoryKind, FollowsTheWordsOfTheRow) {
  EXPECT_EQ(memory_kind_of("reserved (max over run)"), MemoryKind::reserved);
  EXPECT_EQ(memory_kind_of("allocated, printed GB"), MemoryKind::allocated);
  EXPECT_EQ(memory_kind_of("VRAM, kind unstated"), MemoryKind::device);
}

ValidatedFineTuning compared(std::string source, std::int64_t predicted, std::int64_t measured) {
  return {
      .repository = std::move(source), .predicted = Bytes{predicted}, .measured = Bytes{measured}};
}

// Errors of +10%, -20% and +40%: the bias is +10%, the median of their sizes 20%.
TEST(FineTuningStatistics, HaveBiasAndMedian) {
  const std::vector<ValidatedFineTuning> rows{compared("a", 110, 100), compared("a", 80, 100),
                                              compared("b", 140, 100)};
  const MemoryStatistics all = statistics_of(rows);
  EXPECT_EQ(all.rows, 3);
  EXPECT_NEAR(all.mean_error, 0.1, 1e-9);
  EXPECT_NEAR(all.median_abs_error, 0.2, 1e-9);
  EXPECT_NEAR(all.within_a_tenth, 1.0 / 3, 1e-9);
  EXPECT_NEAR(all.worst_error, 0.4, 1e-9);
  EXPECT_EQ(statistics_by_source(rows).size(), 2U);
}

TEST(FineTuningStatistics, CountJudgementsApart) {
  std::vector<ValidatedFineTuning> rows{compared("a", 10, 10), compared("a", 10, 10)};
  rows[1].fits = false;
  rows.push_back({.repository = "a", .predicted = Bytes{10}, .fits = false, .out_of_memory = true});
  const MemoryStatistics all = statistics_of(rows);
  EXPECT_EQ(all.ran, 2);
  EXPECT_EQ(all.ran_right, 1);
  EXPECT_EQ(all.failed, 1);
  EXPECT_EQ(all.failed_right, 1);
}

// modelscope/ms-swift examples/train/rlhf/dpo/lora.sh: pairs, and the model without its adapter.
TEST(FineTuningScenario, TrainsPreferencesByPairs) {
  const FineTuningRow dpo = row_of(
      "modelscope/ms-swift dpo,Qwen2.5-7B-Instruct,lora DPO,bfloat16,1,unstated,single device,1,"
      "2048,on (default),,24,device,");
  ASSERT_EQ(why_not_predicted(dpo), "");
  const eager::TrainingSettings& loop = fine_tuning_scenario(dpo).training.setup.loop;
  EXPECT_EQ(loop.objective, eager::Objective::preference);
  EXPECT_EQ(loop.reference, eager::ReferencePolicy::without_adapter);
  EXPECT_EQ(loop.sequences(), 2);
  EXPECT_EQ(why_not_predicted(row_of("QwenLM/Qwen,Qwen-7B,lora DPO,bf16,1,A100,single device,1,"
                                     "2048,on,,24,device,")),
            "DPO of QwenLM/Qwen is not modelled");
}

// litgpt's script of 2023 puts the longest sample into the first batch of the run
// (get_batch(..., longest_seq_ix if iter_num == 0 else None)); half of Alpaca's samples have at
// most 110 tokens.
TEST(FineTuningScenario, RunsLitgptsLongestSampleFirst) {
  const eager::TrainingSettings loop =
      fine_tuning_scenario(
          row_of("Lightning-AI/litgpt tutorials/resource-tables.md,Llama 2 7 B,lora,bf16-true,2,"
                 "A100-SXM4-40GB,FSDP,4,1304,FSDP block,AdamW,21.784,allocated,"))
          .training.setup.loop;
  EXPECT_EQ(loop.length, 1304);
  EXPECT_EQ(loop.lengths, (std::vector<std::int64_t>{1304, 110, 110}));
}

// config_hub's gemma-2b/full.yaml has 16 / (4 GPUs x 1) micro-batches. The third one adds to whole
// gradients of all layers, which FSDP's no_sync keeps.
TEST(FineTuningScenario, PlaysAThirdMicroBatch) {
  const FineTuningScenario scenario = fine_tuning_scenario(row_of(
      "Lightning-AI/litgpt config_hub/finetune/README.md,gemma-2b,full,bf16-true,4,A10G-24GB,"
      "FSDP,1,512,FSDP block,torch.optim.AdamW,16.233,allocated,"));
  EXPECT_EQ(scenario.training.setup.loop.micro_batches, 3);
}

// ms-swift's scripts limit lengths at 2,048; the longest sample of self-cognition has 131 tokens.
TEST(FineTuningScenario, DrawsLengthsOfWhatMsSwiftTrainsOn) {
  const FineTuningRow row = row_of(
      "modelscope/ms-swift examples/train/tuners/lora/train.sh,Qwen2.5-7B-Instruct,lora,bfloat16,1,"
      "unstated,single device,1,,on (default),adamw default,17.2,device,seq is a cap");
  ASSERT_EQ(why_not_predicted(row), "");
  const eager::TrainingSettings loop = fine_tuning_scenario(row).training.setup.loop;
  EXPECT_EQ(static_cast<int>(loop.lengths.size()), loop.micro_batches);
  EXPECT_LE(loop.length, 131);
  EXPECT_EQ(loop.length, *std::ranges::max_element(loop.lengths));
  EXPECT_GE(*std::ranges::min_element(loop.lengths), 32);
}

// The mean of 4,000 draws is within 3% of what it was asked for (their standard error is 1.1%).
// Padded to the longest of 4, micro-batches are longer.
TEST(SampleLengths, AreDrawnWithTheirMean) {
  const SampleLengths samples{.mean = 170.1, .deviation = 122.9, .least = 1, .greatest = 100'000};
  const auto mean = [](const std::vector<std::int64_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), 0.0) /
           static_cast<double>(lengths.size());
  };
  const auto alone = drawn_lengths(samples, {}, 1, 4000);
  EXPECT_NEAR(mean(alone), 170.1, 5);
  EXPECT_EQ(drawn_lengths(samples, {}, 1, 4000), alone);
  EXPECT_GT(mean(drawn_lengths(samples, {}, 4, 1000)), 1.4 * 170.1);
  const auto cut = drawn_lengths(samples, 200, 1, 4000);
  EXPECT_EQ(*std::ranges::max_element(cut), 200);
}

// Those that are longer than all before them; samples that are all equal grow once. Four of them
// have 400 tokens.
TEST(SampleLengths, GrowWithTheLongestSoFar) {
  const SampleLengths samples{.mean = 170.1, .deviation = 122.9, .least = 29, .greatest = 1028};
  const auto lengths = growing_lengths(samples, 900, 2, 240);
  EXPECT_EQ(std::ranges::adjacent_find(lengths, std::greater_equal<>()), lengths.end());
  EXPECT_LE(lengths.back(), 900);
  EXPECT_GT(lengths.size(), 2U);
  const SampleLengths equal{.mean = 100, .deviation = 0, .least = 1, .greatest = 1000};
  EXPECT_EQ(growing_lengths(equal, {}, 4, 100), (std::vector<std::int64_t>{100}));
  EXPECT_EQ(greatest_sum(equal, {}, 4, 100), 400);
}

TEST(SampleLengths, AreKnownByScript) {
  EXPECT_EQ(sample_lengths("modelscope/ms-swift examples/train/rlhf/dpo/lora.sh")->greatest, 1801);
  EXPECT_EQ(sample_lengths("unslothai/notebooks nb/Llama3_(8B)-Alpaca.ipynb")->greatest, 1028);
  EXPECT_FALSE(sample_lengths("unslothai/notebooks nb/Phi_3_Medium-Conversational.ipynb"));
  EXPECT_FALSE(sample_lengths("modelscope/ms-swift examples/train/packing/llm.sh"));
}

// The saved outputs say "Fast Llama patching release 2024.5" and "Unsloth 2025.4.7".
TEST(UnslothNotebook, HasTheLossOfItsRelease) {
  using enum eager::UnslothLoss;
  EXPECT_EQ(unsloth_loss_of("unslothai/notebooks nb/Llama3_(8B)-Alpaca.ipynb"), whole);
  EXPECT_EQ(unsloth_loss_of("unslothai/notebooks nb/Llama3.2_(1B)-RAFT.ipynb"), cut);
  EXPECT_EQ(unsloth_loss_of("unslothai/notebooks nb/Llama3.3_(70B)_A100.ipynb"), parts);
}

// Tables of each layer until 2025.1 (63782ea3), of all positions until July 2024.
TEST(UnslothNotebook, HasTheTablesOfItsRelease) {
  using enum eager::UnslothRotary;
  EXPECT_EQ(unsloth_rotary_of("unslothai/notebooks nb/Llama3_(8B)-Alpaca.ipynb"), whole_of_layers);
  EXPECT_EQ(unsloth_rotary_of("unslothai/notebooks nb/Qwen2.5_Coder_(14B)-C.ipynb"),
            grown_of_layers);
  EXPECT_EQ(unsloth_rotary_of("unslothai/notebooks nb/Llama3.2_(1B)-RAFT.ipynb"), shared);
}

// 13.21e9 weights of layers in 4 bits are 6.81 GB, head and embedding 3.11 GB. The files have
// 11.12 GB. A feed-forward layer has 267,386,880 weights, which take 0.397 GB more in 16 bits:
// (11.12 - 9.92) / 0.397 = 3.02.
TEST(UnslothNotebook, LeavesWhatItsFileHasIn16Bits) {
  const auto known = known_model("Qwen3-14B");
  ASSERT_TRUE(known);
  EXPECT_THAT(unsloth_unquantized("unslothai/notebooks nb/Qwen3_(14B).ipynb", known->model),
              testing::ElementsAre("model.layers.0.mlp", "model.layers.1.mlp", "model.layers.2.mlp",
                                   "lm_head"));
  EXPECT_THAT(unsloth_unquantized("unslothai/notebooks nb/Llama3.2_(1B)-RAFT.ipynb", known->model),
              testing::IsEmpty());
}

TEST(KnownModel, HasItsPublishedPositions) {
  const auto positions = [](std::string_view name) {
    return known_model(name, {.published_positions = true})
        ->config.at("max_position_embeddings")
        .integer();
  };
  EXPECT_EQ(positions("llama-3-8b-bnb-4bit"), 8192);
  EXPECT_EQ(positions("Llama-3.2-1B-Instruct"), 131072);
  EXPECT_EQ(positions("Phi-3-medium-4k-instruct"), 4096);
  EXPECT_EQ(positions("mistral-7b-instruct-v0.3-bnb-4bit"), 32768);
  EXPECT_EQ(positions("gemma-2-9b-it-bnb-4bit"), 8192);
  EXPECT_EQ(positions("yi-6b-bnb-4bit"), 4096);
}

// train.py loads on rank 0's host; transformers does so with a quantised base under FSDP alone.
TEST(FineTuningScenario, LoadsOnTheHostWhatFsdpTakesUnitByUnit) {
  const auto tuning_of = [](const std::string& fields) {
    return *fine_tuning_scenario(row_of(fields)).training.setup.fine_tuning;
  };
  const auto answer = tuning_of(
      "AnswerDotAI/fsdp_qlora b,Llama-2-7B,qlora,bf16,2,A100,FSDP "
      "full_shard,1,512,on,,5,reserved,");
  EXPECT_TRUE(answer.to_host);
  EXPECT_TRUE(answer.empties_cache);
  const auto peft = tuning_of(
      "huggingface/peft docs,Llama-2-70B,qlora,bf16,2,24GB GPU,FSDP1 full_shard + CPU offload,2,"
      "2048,on,,19.6,device,");
  EXPECT_TRUE(peft.to_host);
  EXPECT_FALSE(peft.empties_cache);
  EXPECT_FALSE(tuning_of("modelscope/ms-swift e,Qwen2.5-7B,qlora,bf16,1,A100,single device,1,512,"
                         "on,,9,device,")
                   .to_host);
}

// axolotl 067b021c, loaders/model.py: with adapters and without FSDP.
TEST(FineTuningScenario, CastsWhatAxolotlCastsWhileItLoads) {
  const auto tuning_of = [](const std::string& method) {
    return *fine_tuning_scenario(row_of("axolotl-ai-cloud/axolotl e,Qwen2.5-7B," + method +
                                        ",bf16,1,A100,single device,1,512,on,,9,device,"))
                .training.setup.fine_tuning;
  };
  EXPECT_TRUE(tuning_of("qlora").casts_ends_and_back);
  EXPECT_TRUE(tuning_of("qlora").prepares_for_kbit);
  EXPECT_TRUE(tuning_of("lora").casts_ends_and_back);
  EXPECT_FALSE(tuning_of("lora").prepares_for_kbit);
}

// transformers 4.50, of March 2025, asks for one block first.
TEST(FineTuningScenario, AsksForABlockAsTheReleaseOfANotebookDoes) {
  const auto warm_up_of = [](const std::string& notebook) {
    return fine_tuning_scenario(row_of("unslothai/notebooks nb/" + notebook +
                                       ",Qwen3-14B,qlora,bf16,1,Tesla T4,single device "
                                       "(Unsloth kernels),2,2048,unsloth,,9,reserved,"))
        .training.setup.fine_tuning->warm_up;
  };
  EXPECT_EQ(warm_up_of("Qwen2.5_Coder_(14B)-Conversational.ipynb"), eager::WarmUp::none);
  EXPECT_EQ(warm_up_of("Qwen3_(14B)-Reasoning-Conversational.ipynb"), eager::WarmUp::with_tied);
}

// The Trainer keeps states of embeddings in 32 bits. UnslothTrainer makes its own optimizer.
TEST(FineTuningScenario, KnowsWhoMakesTheOptimizer) {
  const auto in_float = [](std::string_view source, std::string_view gpu) {
    const FineTuningScenario scenario = fine_tuning_scenario(row_of(fmt::format(
        "{},mistral-7b-v0.3,qlora,fp16,1,{},single device,2,2048,on,adamw_8bit,11.4,reserved,r=128",
        source, gpu)));
    return scenario.training.setup.loop.optimizer.bitsandbytes.value().embeddings_in_float;
  };
  EXPECT_FALSE(in_float("unslothai/notebooks nb/Mistral_(7B)-Text_Completion.ipynb", "Tesla T4"));
  EXPECT_TRUE(in_float("axolotl-ai-cloud/axolotl examples/x.yaml", "A100-SXM4-40GB"));
}

// MetaMathQA's samples have 212 tokens, and the rows state the limit of 768.
TEST(FineTuningScenario, KnowsTheMeanOfPeftsComparison) {
  const FineTuningScenario scenario = fine_tuning_scenario(row_of(
      "huggingface/peft method_comparison/MetaMathQA,Llama-3.2-3B,lora,bf16,1,NVIDIA L40S,single "
      "device,4,768,off,AdamW,20.7,reserved,r=32"));
  EXPECT_EQ(scenario.mean_length, 212);
  EXPECT_EQ(scenario.training.setup.loop.length, 768);
}

// With cut-cross-entropy 1,024 tokens have whole logits: more than a longer batch has.
TEST(FineTuningScenario, PlaysBatchesWithWholeLogitsToo) {
  const eager::TrainingSettings loop =
      fine_tuning_scenario(
          row_of(
              "unslothai/notebooks nb/Qwen3_(14B)-Reasoning-Conversational.ipynb,Qwen3-14B,qlora,"
              "fp16,1,Tesla T4,single device,2,2048,unsloth,adamw_8bit,14.5,reserved,r=16"))
          .training.setup.loop;
  EXPECT_EQ(loop.lengths, (std::vector<std::int64_t>{2048, 512}));
}

// The second row's loss has no chunks: torchtune's recipe drops the compiled one.
TEST(FineTuningScenario, LeavesTorchtunesWholeLossEager) {
  const auto scope = [](const char* step) {
    return fine_tuning_scenario(
               row_of(std::string("pytorch/torchtune README,Llama-3.2-3B,full,bf16,1,A100,single "
                                  "device,2,4096,off,config default,51,active,") +
                      step + "; each row adds to the one above"))
        .training.setup.compiled;
  };
  EXPECT_EQ(scope("step 2: +torch.compile"), CompileScope::blocks);
  EXPECT_EQ(scope("step 3: +chunks"), CompileScope::blocks_and_loss);
}

// NVIDIA Ampere GA102 white paper V2.1: 71.2 TFLOP/s of bfloat16 and 936 GB/s of an RTX 3090.
TEST(FineTuningScenario, HasTheChipOfItsCard) {
  const HardwareProfile profile =
      fine_tuning_scenario(
          row_of("AnswerDotAI/fsdp_qlora,Llama-2-7B,lora,bf16,2,\"RTX 3090 24GB (PCIe, 280 W "
                 "limit)\",FSDP full_shard,6,2048,on (reentrant),,21.35,reserved,"))
          .profile;
  EXPECT_DOUBLE_EQ(profile.peak_bfloat16->flops_per_s, 71.2e12);
  EXPECT_DOUBLE_EQ(profile.memory_bandwidth.bytes_per_s, 936e9);
  EXPECT_DOUBLE_EQ(profile.gpu->power_limit.watts, 280);
  EXPECT_EQ(profile.gpu->multiprocessors, 82);
  // Half of the lanes of PCIe 3.
  EXPECT_EQ(profile.node->pcie_generation, 3);
  EXPECT_DOUBLE_EQ(profile.node->efficiency,
                   find_hardware_profile("rtx3090", "test").node->efficiency / 2);
}

}  // namespace
}  // namespace shardscope
