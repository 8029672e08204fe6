// The machine-readable output: keys and types of docs/cli.md, one object, nothing else on standard
// output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;

/// Runs a verb with --json and parses what it printed.
Json answer(const Workplace& workplace, const std::string& arguments) {
  const Outcome outcome = workplace.run(arguments + " --json");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  return Json::parse(outcome.output);
}

void expect_keys(const Json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    EXPECT_TRUE(object.contains(key)) << key << " in " << object.dump().substr(0, 200);
}

const std::string on_two_ranks =
    " --strategy full_shard --world 2 --batch 2 --seq 8 --optimizer adamw";

class JsonOutput : public ::testing::Test {
 protected:
  JsonOutput() { set_up_tiny_job(workplace_); }
  Workplace workplace_;
};

TEST_F(JsonOutput, ModelHasTheKeysOfTheContract) {
  const Json json = answer(workplace_, "model model" + on_two_ranks);
  EXPECT_EQ(json["schema"], "shardscope.model/1");
  expect_keys(json,
              {"model", "parameters", "tied", "buffers", "modules", "units", "totals", "assumed"});
  expect_keys(json["model"],
              {"family", "class", "parameter_elements", "trainable_elements", "dtype"});
  expect_keys(json["parameters"][0], {"name", "shape", "dtype", "trainable"});
  expect_keys(json["units"][0], {"name", "class", "parameters", "elements", "unpadded_elements",
                                 "padded_elements", "shard_elements", "padding_elements_by_rank"});
  expect_keys(json["totals"], {"p_bytes", "g_bytes", "os_bytes", "per_rank"});
  expect_keys(json["totals"]["per_rank"], {"p_bytes", "g_bytes", "os_bytes"});
}

TEST_F(JsonOutput, ModelCountsTheParametersOfATiedHeadOnce) {
  // wte 256*16 + wpe 32*16 + 2 * (ln 4*16 + c_attn 16*48+48 + c_proj 16*16+16 + c_fc 16*64+64 +
  // c_proj 64*16+16) + ln_f 2*16 = 4096 + 512 + 2 * (64 + 816 + 272 + 1088 + 1040) + 32 = 11200
  const Json json = answer(workplace_, "model model" + on_two_ranks);
  EXPECT_EQ(json["model"]["parameter_elements"], 11200);
  EXPECT_EQ(json["totals"]["p_bytes"], 11200 * 4);
  EXPECT_EQ(json["totals"]["os_bytes"], 11200 * 8);
  EXPECT_EQ(json["tied"], Json::parse(R"([["lm_head.weight", "transformer.wte.weight"]])"));
  EXPECT_EQ(json["model"]["dtype"], "float32");
}

TEST_F(JsonOutput, AModelThatTheNativeRuntimeCannotRunHasItsParametersAndNoUnits) {
  // 11,200 elements as above; relu has no native kernel. P and G take 4 bytes of each, Adam's
  // moments 8.
  std::string config = workplace_.read("model/config.json");
  config.insert(config.find('{') + 1, R"("activation_function": "relu", )");
  workplace_.write("relu.json", config);
  const Json json = answer(workplace_, "model relu.json");
  EXPECT_EQ(json["parameters"].size(), 28u);
  EXPECT_EQ(json["units"], Json::array());
  EXPECT_EQ(json["totals"]["per_rank"],
            Json::parse(R"({"p_bytes": 44800, "g_bytes": 44800, "os_bytes": 89600})"));
  EXPECT_EQ(workplace_.run("model relu.json --world 2").code, 2);
}

/// Two layers on two stages: dealt out by prediction, written down as numbers, and drawn.
TEST_F(JsonOutput, StagesByPredictionAreNumbersInTheRunFolder) {
  for (const std::string by : {"time", "memory"}) {
    const Json json =
        answer(workplace_,
               "simulate --model model --mesh pipeline=2 --strategy no_shard --batch 2 "
               "--seq 8 --accumulate 4 --cluster h100_sxm -o run --pipeline-stages " +
                   by);
    const std::string layers = std::to_string(json["pipeline"]["ranks"][0]["layers"].get<int>()) +
                               "," +
                               std::to_string(json["pipeline"]["ranks"][1]["layers"].get<int>());
    EXPECT_THAT(json["assumed"].dump(),
                ::testing::HasSubstr("layers of stages by predicted " + by + ": " + layers));
    EXPECT_EQ(Json::parse(workplace_.read("run/job.json"))["pipeline"]["stages"], layers);
    EXPECT_THAT(workplace_.read("run/figures/stages.svg"), ::testing::HasSubstr("bubble"));
    EXPECT_THAT(workplace_.run("compare run").output, ::testing::HasSubstr("rank of the pipeline"));
  }
}

// Stages share their sequences: 64 tokens are 8 of 8 tokens, as 8 micro-batches in 2 stages, and as
// 4 where the two ranks of a stage share them.
TEST_F(JsonOutput, TokensOfAStepAreSharedByTheRanksOfAStage) {
  const auto micro_batches = [&](const std::string& mesh) {
    const std::string run =
        "simulate --model model --strategy no_shard --seq 8 --cluster h100_sxm --mesh " + mesh;
    const Json json = answer(workplace_, run + " --tokens-per-batch 64");
    EXPECT_EQ(json["step_time_ns"],
              answer(workplace_, run + " --accumulate " +
                                     json["pipeline"]["micro_batches"].dump())["step_time_ns"]);
    return json["pipeline"]["micro_batches"].get<int>();
  };
  EXPECT_EQ(micro_batches("pipeline=2"), 8);
  EXPECT_EQ(micro_batches("pipeline=2,replicate=2"), 4);
}

// One micro-batch in two stages: each rank computes half of the step. PyTorch's GPipe takes that.
TEST_F(JsonOutput, FewerMicroBatchesThanStagesAreWarnedOfWithTheBubble) {
  const std::string run =
      "simulate --model model --strategy no_shard --seq 8 --cluster h100_sxm --mesh pipeline=2 "
      "--pipeline-schedule GPipe --accumulate ";
  const Outcome few = workplace_.run(run + "1");
  EXPECT_EQ(few.code, 0);
  EXPECT_THAT(few.errors, ::testing::HasSubstr("1 micro-batch is fewer than 2 stages: ranks wait "
                                               "50% of the step"));
  EXPECT_THAT(workplace_.run(run + "2").errors, ::testing::Not(::testing::HasSubstr("fewer")));
}

TEST_F(JsonOutput, ScheduleHasTheKeysOfTheContract) {
  const Json json = answer(workplace_, "schedule --model model" + on_two_ranks);
  EXPECT_EQ(json["schema"], "shardscope.schedule/1");
  expect_keys(json, {"streams", "operations", "buffers"});
  for (const Json& op : json["operations"]) {
    expect_keys(op, {"id", "name", "kind", "stream", "phase", "step", "micro_batch", "unit",
                     "after", "bytes", "flops"});
    ASSERT_TRUE(op["stream"].is_number_integer());
    ASSERT_LT(op["stream"].get<std::size_t>(), json["streams"].size());
  }
  for (const Json& buffer : json["buffers"]) {
    expect_keys(buffer, {"id", "name", "category", "bytes", "allocated_by", "freed_by", "unit"});
  }
}

TEST_F(JsonOutput, ScheduleOfCollectivesHasOnlyThose) {
  const Json json = answer(workplace_, "schedule --collectives --model model" + on_two_ranks);
  ASSERT_FALSE(json["operations"].empty());
  for (const Json& op : json["operations"]) {
    expect_keys(op, {"group", "elements_in", "elements_out", "dtype"});
    EXPECT_EQ(op["group"], Json::parse("[0, 1]"));
  }
}

TEST_F(JsonOutput, SimulateSumsItsTimeToTheStep) {
  const Json json = answer(workplace_, "simulate --cluster h100_sxm --model model" + on_two_ranks);
  EXPECT_EQ(json["schema"], "shardscope.simulate/1");
  expect_keys(json, {"strategy", "runtime", "world", "precision", "fits", "device_memory_bytes",
                     "assumed", "step_time_ns", "step_time_low_ns", "step_time_high_ns",
                     "tokens_per_s", "tokens_per_s_per_device", "mfu_share", "mfu_formula", "time",
                     "memory", "steps", "by_unit", "collectives"});
  const Json& time = json["time"];
  expect_keys(time, {"communication_ns", "overlap_share"});
  EXPECT_EQ(time["compute_ns"].get<std::int64_t>() +
                time["exposed_communication_ns"].get<std::int64_t>() +
                time["exposed_copy_ns"].get<std::int64_t>() + time["idle_ns"].get<std::int64_t>(),
            json["step_time_ns"].get<std::int64_t>());
  expect_keys(json["memory"],
              {"peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes", "arena_bytes",
               "outside_bytes", "at_operation", "at_peak", "maximum"});
  expect_keys(json["memory"]["at_peak"],
              {"parameters_bytes", "gradients_bytes", "optimizer_states_bytes", "activations_bytes",
               "communication_bytes", "temporaries_bytes", "workspace_bytes", "inputs_bytes"});
  EXPECT_LE(json["step_time_low_ns"], json["step_time_ns"]);
  EXPECT_LE(json["step_time_ns"], json["step_time_high_ns"]);
}

// The native runtime's schedules count no CUDA context and no buffers of NCCL; a pipeline's no
// more.
TEST_F(JsonOutput, MemoryOfTheNativeRuntimeMayLieAboveItsArena) {
  for (const std::string mesh : {"", " --mesh pipeline=2 --accumulate 2"}) {
    const Json json =
        answer(workplace_, "simulate --cluster h100_sxm --model model" + on_two_ranks + mesh);
    EXPECT_EQ(json["memory_low_bytes"], json["needs_bytes"]) << mesh;
    EXPECT_GT(json["memory_high_bytes"].get<std::int64_t>(),
              json["needs_bytes"].get<std::int64_t>() + (550LL << 20))
        << mesh;
  }
}

TEST_F(JsonOutput, WhatWasNotGivenIsListedAsAssumed) {
  EXPECT_EQ(
      answer(workplace_, "simulate --cluster h100_sxm --model model" + on_two_ranks)["assumed"],
      Json::array());
  const Json json = answer(
      workplace_, "simulate --cluster h100_sxm --model model --world 2 --seq 8 --optimizer sgd");
  EXPECT_EQ(json["assumed"],
            Json::parse(R"x(["batch 1 (--batch)", "strategy full_shard (--strategy)"])x"));
}

TEST_F(JsonOutput, SimulateSaysHowNcclRunsCollectives) {
  // Two GPUs of a node, a few KiB: LL is the fastest.
  const Json json = answer(workplace_, "simulate --cluster h100_sxm --model model" + on_two_ranks);
  ASSERT_FALSE(json["collectives"].empty());
  const Json& first = json["collectives"][0];
  expect_keys(first, {"kind", "group", "ranks", "bytes", "times", "time_ns", "algorithm",
                      "protocol", "channels"});
  EXPECT_EQ(first["ranks"], 2);
  EXPECT_EQ(first["algorithm"], "RING");
  EXPECT_EQ(first["protocol"], "LL");
}

TEST_F(JsonOutput, ScheduleOfManyRanksDoesNotListThem) {
  const std::string question =
      "schedule --collectives --model model --batch 1 --seq 8 --optimizer sgd --world ";
  EXPECT_EQ(answer(workplace_, question + "4096")["operations"][0]["group"].size(), 4096u);
  EXPECT_EQ(answer(workplace_, question + "1000000")["operations"][0]["group"],
            Json::parse(R"({"first": 0, "stride": 1, "count": 1000000})"));
}

TEST_F(JsonOutput, TheSameQuestionGivesTheSameBytes) {
  const std::string question = "simulate --cluster h100_sxm --json --model model" + on_two_ranks;
  EXPECT_EQ(workplace_.run(question).output, workplace_.run(question).output);
}

TEST_F(JsonOutput, DataCountsTokens) {
  const Json json = answer(workplace_, "data encode text.txt -o tokens.bin");
  EXPECT_EQ(json["schema"], "shardscope.data/1");
  EXPECT_EQ(json["tokens"], workplace_.read("text.txt").size());
  EXPECT_EQ(workplace_.read("tokens.bin").size(), 2 * workplace_.read("text.txt").size());
}

}  // namespace
}  // namespace shardscope::testing
