// transformers' own tensor parallelism beside recordings of its Trainer
// (tests/data/transformers_tensor), and what it has no place for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::filesystem::path root(SOURCE_ROOT);

class TensorParallel : public ::testing::Test {
 protected:
  Json answer(const std::string& arguments) const {
    const Outcome run = workplace_.run(arguments + " --json --quiet");
    EXPECT_EQ(run.code, 0) << arguments << run.errors;
    return Json::parse(run.output, nullptr, false);
  }
  std::string refusal(const std::string& arguments) const {
    const Outcome run = workplace_.run(arguments);
    EXPECT_EQ(run.code, 2) << arguments;
    return run.errors;
  }
  Workplace workplace_;
};

std::string options_of(const Json& row) {
  const Json& arguments = row["args"];
  const bool mixed = row["mixed"] || arguments.contains("bf16");
  std::string text = " --batch " + std::to_string(row["batch"].get<int>()) + " --seq " +
                     std::to_string(row["length"].get<int>()) + " --accumulate " +
                     std::to_string(arguments.value("gradient_accumulation_steps", 1));
  if (arguments.contains("activation_checkpointing")) text += " --checkpointing full";
  if (row.contains("rank")) text += " --rank " + std::to_string(row["rank"].get<int>());
  if (row.contains("accelerate")) return text + " --accelerate accelerate.yaml";
  text += " --runtime fsdp2 --mesh tensor=" + std::to_string(row["tensor"].get<int>());
  for (const char* axis : {"shard", "replicate"})
    if (row[axis] > 1) text += "," + std::string(axis) + "=" + std::to_string(row[axis].get<int>());
  const std::string precision = row["dtype"] == "bfloat16" ? "bf16" : mixed ? "bf16_mixed" : "fp32";
  return text + " --precision " + precision;
}

/// kind, ranks, dtype, elements in and out of each collective of a step.
Json collectives_of(const Json& schedule, const std::string& step) {
  static const std::map<std::string, std::string> short_names{
      {"bfloat16", "bf16"}, {"float32", "fp32"}, {"int64", "int64"}};
  Json rows = Json::array();
  for (const Json& operation : schedule["operations"]) {
    if (operation["step"] != step || operation["phase"] == "init" || !operation.contains("group"))
      continue;
    rows.push_back({operation["kind"], operation["group"], short_names.at(operation["dtype"]),
                    operation["elements_in"], operation["elements_out"]});
  }
  return rows;
}

/// The recorder names groups by their axis; rank 0's neighbours on it are these.
Json with_ranks(Json rows, const Json& recorded) {
  std::map<std::string, Json> ranks;
  int stride = 1;
  for (const char* axis : {"tensor", "shard", "replicate"}) {
    const int size = recorded[axis];
    for (int i = 0; i < size; ++i) ranks[axis].push_back(i * stride);
    stride *= size;
  }
  for (Json& row : rows) row[1] = ranks.at(row[1]);
  return rows;
}

TEST_F(TensorParallel, TakesWhatTransformersTakes) {
  std::ifstream stream(root / "tests/data/transformers_tensor/steps.json");
  for (const Json& row : Json::parse(stream)) {
    SCOPED_TRACE(row["name"].get<std::string>());
    workplace_.write("config.json", row["config"].dump());
    if (row.contains("accelerate"))
      workplace_.write("accelerate.yaml", row["accelerate"].get<std::string>());
    const std::string options = " --model config.json --attention flash" + options_of(row);
    const Json schedule = answer("schedule" + options);
    EXPECT_EQ(collectives_of(schedule, "2"), with_ranks(row["collectives"], row));
    const Json predicted = answer("simulate --cluster h100_sxm" + options);
    // The Trainer keeps two batches of ids and labels on the device, and tensors of its metrics.
    const std::int64_t left_out = row["loop"] == "plain" ? 0 : 3072;
    for (std::size_t step = 0; step < 2; ++step) {
      const std::int64_t recorded = row["peaks"][step]["allocated"];
      const std::int64_t ours = predicted["steps"][step]["memory"]["peak_allocated_bytes"];
      EXPECT_LE(ours, recorded);
      EXPECT_GE(ours, recorded - left_out);
    }
  }
}

// 2 replicas of 4 shards beside 2 ranks of tensor: 16 ranks, of which 8 have sequences of their
// own.
TEST_F(TensorParallel, RanksOfAGroupShareTheirSequences) {
  const std::string model = " --model " + (root / "examples/models/llama_3_8b").string();
  const Json got = answer(
      "simulate --cluster h100_sxm --runtime fsdp2 --precision bf16 --seq 128 "
      "--mesh replicate=2,shard=4,tensor=2" +
      model);
  const double tokens = got["tokens_per_s"].get<double>() *
                        static_cast<double>(got["step_time_ns"].get<std::int64_t>()) * 1e-9;
  EXPECT_NEAR(tokens, 8 * 128, 1);
}

TEST_F(TensorParallel, WhatIsNotKnownIsRefusedWithAWayOut) {
  const std::string model = " --model " + (root / "examples/models/llama_3_8b").string();
  const std::string fsdp2 = "simulate --cluster h100_sxm --seq 128 --runtime fsdp2" + model;
  EXPECT_THAT(refusal(fsdp2 + " --mesh tensor=3"),
              HasSubstr("num_attention_heads is 32, which 3 ranks of tensor do not divide"));
  EXPECT_THAT(refusal(fsdp2 + " --mesh tensor=4 --peft r=8"), HasSubstr("--peft"));
  EXPECT_THAT(refusal(fsdp2 + " --mesh tensor=4 --wrap none"), HasSubstr("fsdp_plan"));
  EXPECT_THAT(refusal(fsdp2 + " --mesh tensor=4,replicate=2"), HasSubstr("axis shard above 1"));
  EXPECT_THAT(refusal(fsdp2 + " --mesh tensor=4,shard=2 --world 16"),
              HasSubstr("makes 8 ranks, and the world has 16"));
  EXPECT_THAT(refusal("simulate --cluster h100_sxm --runtime ddp --mesh tensor=4" + model),
              HasSubstr("ddp has no axis tensor"));
  EXPECT_THAT(refusal("simulate --cluster h100_sxm --runtime fsdp2 --mesh tensor=2 --model " +
                      (root / "examples/models/gpt2").string()),
              HasSubstr("transformers' tensor parallelism of gpt2 is not predicted"));
}

// What plan says of a place is what simulate says of its settings.
TEST_F(TensorParallel, PlanWeighsSizesOfTheAxis) {
  workplace_.write("config.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "vocab_size": 1024, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": false})");
  const std::string model = " --cluster h100_sxm --model config.json --seq 64 ";
  const Json plan = answer(
      "plan --runtime fsdp2 --tensor 2,3 --world 4 --tokens-per-batch 512 "
      "--precision bf16 --places 50" +
      model);
  EXPECT_THAT(plan["dropped"].dump(), HasSubstr("fsdp2 tensor 3"));
  int weighed = 0;
  for (const Json& place : plan["candidates"]) {
    const Json& settings = place["settings"];
    if (settings["mesh"] != "replicate=1,shard=2,tensor=2") continue;
    ++weighed;
    const auto number = [&](const char* key) { return std::to_string(settings[key].get<int>()); };
    const Json alone = answer(
        "simulate --runtime fsdp2 --mesh tensor=2,shard=2 --precision bf16 "
        "--batch " +
        number("batch") + " --accumulate " + number("accumulate") + " --checkpointing " +
        settings["checkpointing"].get<std::string>() + model);
    EXPECT_EQ(place["step_time_ns"], alone["step_time_ns"]) << settings;
  }
  EXPECT_GT(weighed, 0);
}

// accelerate 1.15.0 and transformers 5.24.0 raise ImportError: ReplicateParallel.
TEST_F(TensorParallel, AccelerateCannotShardADividedModel) {
  workplace_.write("a.yaml",
                   "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n"
                   "fsdp_config:\n  fsdp_version: 2\n"
                   "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                   "parallelism_config:\n  parallelism_config_dp_shard_size: 2\n"
                   "  parallelism_config_tp_size: 4\n");
  const std::string model = " --model " + (root / "examples/models/llama_3_8b").string();
  EXPECT_THAT(refusal("simulate --cluster h100_sxm --seq 128 --accelerate a.yaml" + model),
              HasSubstr("--runtime fsdp2 --mesh tensor=4,shard=2"));
  const Outcome lint = workplace_.run("lint a.yaml" + model);
  EXPECT_THAT(lint.output, HasSubstr("[tensor-and-fsdp2]"));
}

}  // namespace
}  // namespace shardscope::testing
