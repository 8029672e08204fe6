// What people asked in the trackers of the libraries: the file in, the finding or the figure out.
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;

/// Of Qwen2.5-0.5B: 494,032,768 weights of two bytes.
constexpr std::int64_t weights_in_bfloat16 = 988'065'536;

std::string model() {
  return std::string("--model ") + SOURCE_ROOT + "/examples/models/qwen2_5_0_5b ";
}

/// A file of accelerate for FSDP on four GPUs, with more keys of fsdp_config.
std::string accelerate_file(int version, const std::string& more = {}) {
  return "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
         "num_machines: 1\nnum_processes: 4\nfsdp_config:\n  fsdp_version: " +
         std::to_string(version) +
         "\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
         "  fsdp_transformer_layer_cls_to_wrap: Qwen2DecoderLayer\n" +
         more;
}

std::string axolotl_file(const std::string& sharding) {
  return "base_model: Qwen/Qwen2.5-0.5B\nadapter: lora\nlora_r: 16\nlora_alpha: 32\n"
         "lora_target_linear: true\nsequence_len: 512\nsample_packing: true\nmicro_batch_size: 1\n"
         "optimizer: adamw_torch\nbf16: true\ngradient_checkpointing: true\n" +
         sharding;
}

constexpr const char* adapters = "--peft r=16,targets=all-linear ";
constexpr const char* usual = "--batch 1 --seq 512 --cluster h100_sxm --json ";

Json simulated(const Workplace& place, const std::string& arguments) {
  const Outcome run = place.run("simulate " + model() + usual + arguments);
  EXPECT_EQ(run.code, 0) << run.errors;
  return Json::parse(run.output, nullptr, false);
}

Json phase(const Json& summary, const std::string& name) {
  for (const Json& row : summary.at("phases"))
    if (row.at("phase") == name) return row;
  return {};
}

std::int64_t allocated(const Json& summary, const std::string& name) {
  return phase(summary, name).at("memory").at("peak_allocated_bytes").get<std::int64_t>();
}

std::int64_t on_host(const Json& summary, const std::string& name) {
  return phase(summary, name).at("host_memory").at("per_node_bytes").get<std::int64_t>();
}

std::int64_t most_gradients(const Json& summary) {
  return summary.at("memory").at("maximum").at("gradients_bytes").get<std::int64_t>();
}

// axolotl#1494, trl#1723: "Must flatten tensors with uniform dtype but got torch.bfloat16 and
// torch.float32". Since then the Trainer wraps what trains apart (update_fsdp_plugin_peft).
TEST(FineTuningThread, Axolotl1494WrapsAdaptersApart) {
  const Workplace place;
  place.write("lora.yml",
              axolotl_file("fsdp: [full_shard, auto_wrap]\nfsdp_config:\n  fsdp_version: 1\n"
                           "  use_orig_params: false\n"
                           "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                           "  transformer_layer_cls_to_wrap: Qwen2DecoderLayer\n"));
  const Outcome run =
      place.run("simulate " + model() + "--config lora.yml --world 4 --cluster h100_sxm");
  EXPECT_EQ(run.code, 0) << run.errors;
  EXPECT_NE(run.output.find("layers.*.self_attn.q_proj.lora_A.default"), std::string::npos);
}

// PEFT 0.21, fsdp_auto_wrap_policy: it takes the place of any policy, and reads the launcher's
// classes; TypeError for one that the model has not.
TEST(FineTuningThread, PeftsPolicyTakesThePlaceOfTheFiles) {
  const Workplace place;
  const auto run = [&](const std::string& keys) {
    place.write("fsdp.yaml", "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 1\n" + keys +
                                 "mixed_precision: bf16\nnum_machines: 1\nnum_processes: 4\n");
    return place.run("simulate " + model() + adapters +
                     "--accelerate fsdp.yaml --seq 512 --cluster h100_sxm");
  };
  const Outcome whole = run("  fsdp_auto_wrap_policy: NO_WRAP\n");
  EXPECT_EQ(whole.code, 0) << whole.errors;
  EXPECT_NE(whole.output.find("layers.*.mlp.up_proj.lora_B.default"), std::string::npos);
  const Outcome other =
      run("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
          "  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.errors.find("no module of class LlamaDecoderLayer"), std::string::npos)
      << other.errors;
}

// The same of a base in 4 bits whose packed weights are bytes: `bnb_4bit_quant_storage` is missing.
TEST(FineTuningThread, Trl1723SaysThatBytesCannotBeFlattened) {
  const Workplace place;
  place.write("fsdp.yaml",
              "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 1\n"
              "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\nmixed_precision: bf16\n"
              "num_machines: 1\nnum_processes: 4\n");
  const Outcome run = place.run("simulate " + model() + adapters +
                                "--accelerate fsdp.yaml --quantization nf4 --seq 512 --cluster "
                                "h100_sxm");
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.errors.find("q_proj.base_layer.weight: FSDP cannot flatten uint8"),
            std::string::npos)
      << run.errors;
}

// accelerate#3844, #3474: frozen weights were upcast under FSDP2. In accelerate 1.15 a rank's
// quarter of them stays bfloat16: float32 shards alone would take two bytes a weight more.
TEST(FineTuningThread, Accelerate3844KeepsFrozenWeightsInBfloat16) {
  const Workplace place;
  place.write("fsdp2.yaml", accelerate_file(2, "  fsdp_reshard_after_forward: true\n"));
  const Json summary =
      simulated(place, std::string("--accelerate fsdp2.yaml --phases ") + adapters);
  EXPECT_GE(allocated(summary, "wrap"), weights_in_bfloat16 / 4);
  EXPECT_LT(allocated(summary, "wrap"), 2 * weights_in_bfloat16 / 4);
}

// transformers#43749, pytorch#104755: the host runs out of memory while every rank loads a copy.
TEST(FineTuningThread, Transformers43749CountsACopyForEachRank) {
  const Workplace place;
  place.write("each.yaml", accelerate_file(2, "  fsdp_cpu_ram_efficient_loading: false\n"));
  place.write("one.yaml", accelerate_file(2, "  fsdp_cpu_ram_efficient_loading: true\n"));
  const std::string more = std::string(adapters) + "--phases ";
  EXPECT_EQ(on_host(simulated(place, "--accelerate each.yaml " + more), "load"),
            4 * weights_in_bfloat16);
  EXPECT_EQ(on_host(simulated(place, "--accelerate one.yaml " + more), "load"),
            weights_in_bfloat16);
}

// transformers#23386: out of memory when saving. The whole float32 model is on rank 0's host. With
// adapters the frozen base is, too, and 8,798,208 elements of rank 16 beside all linear layers. The
// head is tied to the embedding, and gathered by itself. With the optimizer accelerate saves what
// trains once more: ignore_frozen_params takes out the first name of a frozen weight alone.
TEST(FineTuningThread, Transformers23386GathersTheWholeModelToSaveIt) {
  const Workplace place;
  place.write("fsdp2.yaml", accelerate_file(2, "  fsdp_state_dict_type: FULL_STATE_DICT\n"));
  const std::string file = "--accelerate fsdp2.yaml --phases ";
  EXPECT_GE(on_host(simulated(place, file), "save"), 2 * weights_in_bfloat16);
  const Json lora = simulated(place, file + adapters);
  const std::int64_t head_and_adapters = 151'936 * 896 * 2 + 8'798'208 * 4;
  EXPECT_EQ(on_host(lora, "save"), weights_in_bfloat16 + head_and_adapters);
  EXPECT_EQ(on_host(lora, "save_optimizer"), head_and_adapters);
}

// transformers#12878: evaluation keeps logits. A sequence of 512 tokens more: 512 x 151,936 logits
// in bfloat16 and in float32.
TEST(FineTuningThread, Transformers12878KeepsLogitsInEvaluation) {
  const Workplace place;
  const std::string alone =
      std::string("--runtime ddp --world 1 --precision bf16 --phases ") + adapters;
  const Outcome two = place.run("simulate " + model() + "--batch 2 --seq 512 --cluster h100_sxm " +
                                "--json " + alone);
  const std::int64_t logits = 512 * 151'936;
  EXPECT_GE(allocated(Json::parse(two.output), "evaluate") -
                allocated(simulated(place, alone), "evaluate"),
            logits * (2 + 4));
}

// pytorch#149293: resuming loads the optimizer's state once more. bitsandbytes copies it first: the
// host has it twice. What was paged comes back to the device and stays there.
TEST(FineTuningThread, Pytorch149293LoadsTheOptimizersStateTwice) {
  const Workplace place;
  const std::string alone = std::string("--runtime ddp --precision bf16 --phases --world ");
  const Json torch = simulated(place, alone + "1 --optimizer adamw");
  // Two moments of 494,032,768 weights in bfloat16, and a step of each of 290 parameters.
  EXPECT_EQ(on_host(torch, "resume"), 2 * weights_in_bfloat16 + 290 * 4);
  const Json paged = simulated(place, alone + "1 --optimizer paged_adamw_32bit");
  EXPECT_EQ(on_host(paged, "resume"), 4 * 2 * weights_in_bfloat16);
  EXPECT_GE(allocated(paged, "resume") - weights_in_bfloat16, 4 * weights_in_bfloat16);
  // With several ranks the file is loaded on each device, and bitsandbytes copies it there.
  const Json ranks = simulated(place, alone + "2 --optimizer paged_adamw_32bit");
  EXPECT_GE(allocated(ranks, "resume") - allocated(paged, "resume"), 4 * weights_in_bfloat16);
}

// accelerate#2531: no_sync keeps whole gradients between micro-batches.
TEST(FineTuningThread, Accelerate2531ShowsWhatNoSyncCosts) {
  const Workplace place;
  place.write("fsdp2.yaml", accelerate_file(2));
  EXPECT_GE(most_gradients(simulated(place, "--accelerate fsdp2.yaml --accumulate 4")),
            weights_in_bfloat16);
  EXPECT_LT(most_gradients(simulated(place, "--accelerate fsdp2.yaml --accumulate 1")),
            weights_in_bfloat16);
}

// transformers#30404: parameters are gathered twice in backward.
TEST(FineTuningThread, Transformers30404WarnsOfGathersInBackward) {
  const Workplace place;
  place.write("lora.yml", axolotl_file("fsdp_version: 2\nfsdp_config:\n"
                                       "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"));
  const Outcome run = place.run("lint lora.yml");
  EXPECT_NE(
      run.output.find("lora.yml:11: warning: gradient_checkpointing: under FSDP the Trainer's "
                      "own checkpointing gathers parameters once more in backward"),
      std::string::npos)
      << run.output;
}

// peft#1972, transformers#30663: a quantised base under DeepSpeed's stage 3. What no recording of
// the library confirms is said.
TEST(FineTuningThread, Peft1972SaysThatDeepSpeedIsNotConfirmed) {
  const Workplace place;
  place.write("z3.json", R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled": true},
"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1})");
  const Outcome run = place.run("simulate " + model() + "--seq 512 --world 4 --cluster h100_sxm " +
                                "--deepspeed z3.json --quantization nf4 " + adapters);
  EXPECT_NE(run.errors.find("no recording of DeepSpeed confirms it"), std::string::npos)
      << run.errors;
}

// Recorded of DeepSpeed 0.19.8 and PEFT 0.21.2 (torch 2.15): rank 0 of 8 allocated 232,042,496
// bytes at most. With adapters in bfloat16, as before 2026, it would be 16% less.
TEST(FineTuningThread, DeepSpeed8066LeavesAdaptersInFloat32UnderZero3) {
  const Workplace place;
  place.write("config.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4, "num_attention_heads": 8,
"num_key_value_heads": 4, "vocab_size": 16000, "max_position_embeddings": 4096,
"torch_dtype": "bfloat16", "tie_word_embeddings": false})");
  place.write("z3.json", R"({"zero_optimization": {"stage": 3, "contiguous_gradients": false},
"bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
"gradient_clipping": 1.0, "zero_allow_untested_optimizer": true})");
  const Outcome run = place.run(
      "simulate --model config.json --batch 2 --seq 256 --world 8 --cluster h100_sxm "
      "--deepspeed z3.json --attention flash --json " +
      std::string(adapters));
  ASSERT_EQ(run.code, 0) << run.errors;
  constexpr double recorded = 232'042'496;
  const Json summary = Json::parse(run.output);
  EXPECT_NEAR(summary.at("memory").at("peak_allocated_bytes").get<double>(), recorded,
              recorded / 1000);
}

/// Of FSDP1: the first block, and the adapter of one of its layers beside it.
std::string units_of_adapters() {
  const std::string block = "base_model.model.model.layers.0";
  const std::string adapter = block + ".self_attn.q_proj.lora_";
  return "[[\"" + block + "\"], [\"" + adapter + "A.default\"], [\"" + adapter + "B.default\"]]";
}

constexpr const char* under_fsdp1 =
    "--batch 1 --seq 64 --cluster h100_sxm --runtime fsdp1 --use-orig-params --world 2 "
    "--precision fp32 --wrap units:units.json ";

// PEFT's fsdp_auto_wrap_policy: modules of FSDP around lora_A and lora_B, whose dtype the layer
// asks for before they are gathered.
TEST(FineTuningUnits, MayBeAdapters) {
  const Workplace place;
  place.write("units.json", units_of_adapters());
  const Outcome run =
      place.run("simulate " + model() + under_fsdp1 + "--peft r=8,targets=q_proj --json");
  EXPECT_EQ(run.code, 0) << run.errors;
}

// With use_orig_params off, the module of an adapter holds the flat parameter beside its weight.
TEST(FineTuningUnits, MayBeAdaptersWithoutOriginalParameters) {
  const Workplace place;
  place.write("adapter_config.json", R"({"peft_type": "LORA", "r": 4, "lora_alpha": 4,
"target_modules": ["k_proj"], "layers_to_transform": [0]})");
  const std::string adapter = "base_model.model.model.layers.0.self_attn.k_proj.lora_";
  place.write("units.json", "[[\"" + adapter + "A.default\"], [\"" + adapter + "B.default\"]]");
  const Outcome run = place.run("simulate " + model() +
                                "--batch 1 --seq 64 --cluster h100_sxm --runtime fsdp1 --world 2 "
                                "--precision fp32 --wrap units:units.json --peft "
                                "adapter_config.json --json");
  EXPECT_EQ(run.code, 0) << run.errors;
}

// PEFT asks for the second size of an adapter's weight, which a shard lacks. Where the block is
// wrapped first, its unit has the adapters' weights, and theirs have none.
TEST(FineTuningUnits, AreNoAdaptersOfDora) {
  const Workplace place;
  const std::string block = "base_model.model.model.layers.0";
  const std::string adapter = block + ".self_attn.q_proj.lora_";
  const std::string dora = "--peft r=8,targets=q_proj,dora";
  place.write("units.json", "[[\"" + adapter + "A.default\"], [\"" + adapter + "B.default\"], [\"" +
                                block + "\"]]");
  const Outcome run = place.run("simulate " + model() + under_fsdp1 + dora);
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.errors.find("wrap blocks only"), std::string::npos) << run.errors;
  place.write("units.json", units_of_adapters());
  EXPECT_EQ(place.run("simulate " + model() + under_fsdp1 + dora).code, 0);
}

// A run folder leads to the same prediction.
TEST(FineTuningFile, IsRememberedInTheJobOfARun) {
  const Workplace place;
  place.write("lora.yml", axolotl_file("fsdp_version: 2\nfsdp_config:\n"
                                       "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"));
  const std::string more = " --cluster h100_sxm --json";
  const Outcome first =
      place.run("simulate " + model() + "--config lora.yml --world 4 -o run" + more);
  const Outcome again = place.run("simulate --job run/job.json" + more);
  EXPECT_EQ(Json::parse(first.output).at("memory"), Json::parse(again.output).at("memory"));
}

// TRL 1.16 drops torch_dtype without a word: weights are loaded in float32.
TEST(FineTuningThread, TrlLoadsFloat32WhereTorchDtypeIsGiven) {
  const Workplace place;
  place.write("former.yaml",
              "model_name_or_path: Qwen/Qwen2.5-0.5B\ntorch_dtype: bfloat16\nuse_peft: true\n"
              "per_device_train_batch_size: 1\n");
  place.write("now.yaml",
              "model_name_or_path: Qwen/Qwen2.5-0.5B\ndtype: bfloat16\nuse_peft: true\n"
              "per_device_train_batch_size: 1\n");
  const Json former = simulated(place, "--config former.yaml --phases");
  const Json now = simulated(place, "--config now.yaml --phases");
  EXPECT_EQ(allocated(former, "load") / 1'000'000, 2 * weights_in_bfloat16 / 1'000'000);
  EXPECT_EQ(allocated(now, "load") / 1'000'000, weights_in_bfloat16 / 1'000'000);
  const Outcome run =
      place.run("simulate " + model() + "--seq 512 --cluster h100_sxm --config former.yaml");
  EXPECT_NE(run.errors.find("former.yaml:2: warning: torch_dtype: TRL 1.16 drops the key"),
            std::string::npos)
      << run.errors;
}

}  // namespace
}  // namespace shardscope::testing
