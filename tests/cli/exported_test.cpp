// `simulate` of exported models beside what PyTorch itself takes (tests/data/exported_steps).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

const std::filesystem::path data = std::filesystem::path(SOURCE_ROOT) / "tests/data/exported_steps";

std::vector<Json> recorded() {
  std::ifstream file(data / "recorded.json");
  return Json::parse(file).get<std::vector<Json>>();
}

std::string simulate(const std::string& model, const std::string& options) {
  return "simulate --model " + (data / (model + ".json")).string() +
         " --cluster h100_sxm --world 8 " + options;
}

class Exported : public ::testing::Test {
 protected:
  std::string refused(const std::string& options) const {
    const Outcome outcome = workplace_.run(simulate("gated", options));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    return outcome.errors;
  }
  Workplace workplace_;
};

class ExportedStep : public Exported, public ::testing::WithParamInterface<Json> {};

TEST_P(ExportedStep, TakesTheMemoryThatPytorchTakes) {
  const Json& row = GetParam();
  const std::string runtime = row["runtime"];
  const Outcome outcome = workplace_.run(
      simulate(row["model"], "--json --clip 0 --runtime " + runtime + " --strategy " +
                                 (runtime == "ddp" ? "no_shard" : "full_shard") + " --precision " +
                                 row["precision"].get<std::string>() + " --checkpointing " +
                                 row["checkpointing"].get<std::string>()));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json steps = Json::parse(outcome.output)["steps"];
  for (std::size_t i = 0; i < row["steps"].size(); ++i) {
    EXPECT_EQ(steps[i]["memory"]["peak_allocated_bytes"], row["steps"][i]["allocated"]);
    EXPECT_EQ(steps[i]["memory"]["peak_active_bytes"], row["steps"][i]["active"]);
  }
}

std::string name_of_case(const ::testing::TestParamInfo<Json>& info) {
  std::string name;
  for (const char* key : {"model", "runtime", "precision", "checkpointing"})
    name += (name.empty() ? "" : "_") + info.param[key].get<std::string>();
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recorded, ExportedStep, ::testing::ValuesIn(recorded()), name_of_case);

TEST_F(Exported, SizesThatItWasNotExportedWithAreRefused) {
  EXPECT_THAT(refused("--runtime ddp --batch 8"),
              AllOf(HasSubstr("--batch"), HasSubstr("exported with 4, got 8")));
  EXPECT_THAT(refused("--runtime ddp --seq 128"),
              AllOf(HasSubstr("--seq"), HasSubstr("exported with 64, got 128")));
}

TEST_F(Exported, WhatTheStepHoldsIsNotAskedAgain) {
  EXPECT_THAT(refused("--runtime ddp --loss outside"), HasSubstr("holds the whole step"));
  EXPECT_THAT(refused("--runtime ddp --dropout off"), HasSubstr("holds the whole step"));
  EXPECT_THAT(refused("--runtime ddp --peft r=8"), HasSubstr("with its adapters"));
}

TEST_F(Exported, APrecisionWithoutAStepIsRefused) {
  EXPECT_THAT(
      refused("--runtime ddp --precision fp16_mixed"),
      AllOf(HasSubstr("no step for float32 under autocast to float16"), HasSubstr("--precision")));
}

// The file of a tool that loads a whole model itself, and one that evaluates with 8 sequences: an
// export has its own.
TEST_F(Exported, AToolTrainsAndEvaluatesIt) {
  workplace_.write("run.yaml",
                   "model_name_or_path: m\nstage: sft\nfinetuning_type: full\nbf16: true\n"
                   "cutoff_len: 64\nper_device_train_batch_size: 4\neval_strategy: steps\n"
                   "disable_gradient_checkpointing: true\n");
  const Outcome outcome = workplace_.run(simulate("gated", "--config run.yaml --json --phases"));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("\"evaluate\""));
}

TEST_F(Exported, TheNativeRuntimeRunsNoneOfIt) {
  EXPECT_THAT(refused("--runtime native"), HasSubstr("native runtime"));
}

// nn.MultiheadAttention reads the weight of its out_proj, which is never called.
TEST_F(Exported, AParameterThatNobodyGathersIsNamed) {
  const Outcome outcome =
      workplace_.run(simulate("encoder", "--runtime deepspeed --strategy full_shard"));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("encoder.layers.0.self_attn.out_proj."),
                                    HasSubstr("does not own it"), HasSubstr("ZeRO-2")));
}

// Of 2 micro-batches of 4 sequences, as no other size was exported.
TEST_F(Exported, APlanWeighsTheBatchesOfTheExport) {
  const Outcome outcome = workplace_.run("plan --json --model " + (data / "encoder.json").string() +
                                         " --cluster h100_sxm --world 8 --tokens-per-batch 4096");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json plan = Json::parse(outcome.output);
  ASSERT_FALSE(plan["candidates"].empty());
  for (const Json& candidate : plan["candidates"]) EXPECT_EQ(candidate["settings"]["batch"], 4);
  EXPECT_THAT(workplace_
                  .run("plan --model " + (data / "encoder.json").string() +
                       " --cluster h100_sxm --world 8 --tokens-per-batch 1024")
                  .errors,
              AllOf(HasSubstr("2 sequences a rank are no multiple of 4"), HasSubstr("--batch 1")));
}

// PyTorch raises for offload_to_cpu under NO_SHARD, which is what a save of the whole state asks
// for.
TEST_F(Exported, APlanLeavesOutASaveThatPytorchRefuses) {
  const Outcome outcome = workplace_.run(
      "plan --model " + (data / "encoder.json").string() +
      " --cluster h100_sxm --world 8 --tokens-per-batch 4096 --runtime fsdp1 --strategy no_shard");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("an evaluation"), Not(HasSubstr("a save"))));
}

}  // namespace
}  // namespace shardscope::testing
