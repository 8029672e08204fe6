// `shardscope model` by the rules of the real runtimes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class Sharding : public ::testing::Test {
 protected:
  Sharding() { set_up_tiny_job(workplace_); }
  Json model(const std::string& arguments) const {
    const Outcome outcome = workplace_.run("model " + arguments + " --json");
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return Json::parse(outcome.output);
  }
  std::string refusal(const std::string& arguments, int code) const {
    const Outcome outcome = workplace_.run("model " + arguments + " --quiet");
    EXPECT_EQ(outcome.code, code) << outcome.errors;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_EQ(outcome.output, "");
    return outcome.errors;
  }
  Workplace workplace_;
};

// The example of issue 4: BERT base uncased for sequence classification, 2 GPUs, SIZE_BASED_WRAP
// from 1e7 elements, use_orig_params false.
TEST_F(Sharding, Fsdp1WrapsBertBySizeAsTheLibraryDoes) {
  workplace_.write("bert/config.json",
                   R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"]})");
  const Json json = model("bert --runtime fsdp1 --wrap size:10000000 --world 2");
  std::vector<std::int64_t> shards;
  for (const Json& unit : json["units"]) shards.push_back(unit["shard_elements"]);
  EXPECT_THAT(shards, ElementsAre(494'209, 11'720'448, 42'527'232));
}

// Units of 3,272 elements a block (2 * 16 * 2 + 816 + 272 + 1088 + 1040 = 3,280) and a root of
// 11,200 - 2 * 3,280 = 4,640: on 3 ranks shards of 1,094 and 1,547 elements, 2 and 1 of padding.
TEST_F(Sharding, Fsdp1PadsTheLastShard) {
  const Json json = model("model --runtime fsdp1 --world 3");
  EXPECT_EQ(json["runtime"], "fsdp1");
  ASSERT_EQ(json["units"].size(), 3u);
  EXPECT_EQ(json["units"][0]["shard_elements"], 1'547);
  EXPECT_EQ(json["units"][1]["shard_elements"], 1'094);
  EXPECT_EQ(json["units"][1]["padding_elements_by_rank"], Json::parse("[0, 0, 2]"));
  // 1,547 + 2 * 1,094 = 3,735 elements a rank: 4 bytes each of P and G, 8 of OS.
  EXPECT_EQ(json["totals"]["per_rank"],
            Json::parse(R"({"p_bytes": 14940, "g_bytes": 14940, "os_bytes": 29880})"));
}

// Rows are cut, not elements: 3 rows of c_attn.weight (16, 48) would be 16 / 3 rounded up = 6 of 16
// rows a rank, 18 stored.
TEST_F(Sharding, Fsdp2CutsEveryParameterByRows) {
  const Json json = model("model --runtime fsdp2 --world 3 --rank 2");
  const Json& weight = json["units"][1]["parameters_sharded"][2];
  EXPECT_EQ(weight["name"], "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(weight["shard_shape"], Json::parse("[4, 48]"));
  EXPECT_EQ(weight["padded_shard_elements"], 6 * 48);
}

TEST_F(Sharding, Fsdp2TakesUnitsOfLayersThatAreNotNeighbours) {
  workplace_.write("units.json",
                   R"([["transformer.h.0", "transformer.ln_f"], ["transformer.h.1"]])");
  const Json json = model("model --runtime fsdp2 --world 2 --wrap units:units.json");
  ASSERT_EQ(json["units"].size(), 3u);
  EXPECT_EQ(json["units"][1]["name"], "transformer.h.0, transformer.ln_f");
  EXPECT_EQ(json["units"][1]["elements"], 3'280 + 32);
}

// 11,200 float32 elements are 44,800 bytes: one bucket, below the first limit of 1 MiB.
TEST_F(Sharding, DdpHoldsEverythingOnEveryRank) {
  const Json json = model("model --runtime ddp --world 4");
  ASSERT_EQ(json["buckets"].size(), 1u);
  EXPECT_EQ(json["buckets"][0]["elements"], 11'200);
  EXPECT_EQ(json["totals"]["per_rank"]["os_bytes"], 11'200 * 8);
}

// ZeroRedundancyOptimizer gives each parameter, the largest first, to the rank with the fewest
// elements so far. The states of all ranks are Adam's two float32 moments of 11,200 elements.
TEST_F(Sharding, DdpZero1PartsTheStatesAmongRanks) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const Json json =
        model("model --runtime ddp --strategy zero1 --world 3 --rank " + std::to_string(rank));
    sum += json["totals"]["per_rank"]["os_bytes"].get<std::int64_t>();
    EXPECT_EQ(json["totals"]["per_rank"]["g_bytes"], 11'200 * 4);
  }
  EXPECT_EQ(sum, 11'200 * 8);
}

// Stage 2 on 3 ranks: 11,200 elements padded to a multiple of 2 x 3 are 11,202, 3,734 a rank. In
// bf16: P whole in 2 bytes, G a part in 2, OS a part of 4 for the master and 8 for Adam's moments.
TEST_F(Sharding, DeepSpeedPadsTheFlatGroupToTwiceTheWorld) {
  const Json json =
      model("model --runtime deepspeed --strategy shard_grad_op --world 3 --precision bf16_mixed");
  ASSERT_EQ(json["buckets"].size(), 1u);
  EXPECT_EQ(json["buckets"][0]["padded_elements"], 11'202);
  EXPECT_EQ(json["totals"]["per_rank"],
            (Json{{"p_bytes", 11'202 * 2}, {"g_bytes", 3'734 * 2}, {"os_bytes", 3'734 * 12}}));
}

// Stage 3 on 3 ranks: wte of 4,096 elements is split into 1,366 a rank, 2 of padding; all of this
// small model is below the threshold of 1e5 elements and stays gathered.
TEST_F(Sharding, DeepSpeedStage3SplitsEveryParameter) {
  const Json json = model("model --runtime deepspeed --world 3");
  EXPECT_EQ(json["partitions"][0],
            Json::parse(R"({"name": "transformer.wte.weight", "elements": 4096,
                            "shard_elements": 1366, "padding_elements": 2, "persistent": true,
                            "sub_group": 0})"));
}

// As above, but gradients are summed in float32; stage 2 does not look at zero_hpz_partition_size.
TEST_F(Sharding, ADeepSpeedFileSaysInWhatGradientsAreSummed) {
  workplace_.write("ds.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
      "data_types": {"grad_accum_dtype": "fp32"},
      "zero_optimization": {"stage": 2, "zero_hpz_partition_size": 3}})");
  const Json json = model("model --deepspeed ds.json --world 3");
  EXPECT_EQ(json["totals"]["per_rank"]["g_bytes"], 3'734 * 4);
  EXPECT_EQ(json["strategy"], "shard_grad_op");
  EXPECT_EQ(json["warnings"], Json::array());
}

TEST_F(Sharding, WhatIsOffloadedIsSaidToBeElsewhere) {
  const auto rules = [&](const std::string& arguments) {
    const Json json = model(arguments);
    std::vector<std::string> names;
    for (const Json& warning : json["warnings"]) names.push_back(warning["rule"]);
    return names;
  };
  workplace_.write("ds.json", R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization":
      {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/nvme"}}})");
  EXPECT_THAT(rules("model --deepspeed ds.json --world 2"), ElementsAre("offloaded-states"));
  EXPECT_THAT(rules("model --fsdp \"full_shard auto_wrap offload\" --world 2"),
              ElementsAre("offloaded-states"));
}

constexpr const char* accelerate_file =
    "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 2\nfsdp_config:\n"
    "  fsdp_version: 1\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
    "  fsdp_use_orig_params: true\n";

TEST_F(Sharding, AnAccelerateFileDecidesAndTheWorldMayBeOverruled) {
  workplace_.write("c.yaml", accelerate_file);
  const Json two = model("model --accelerate c.yaml");
  EXPECT_EQ(two["runtime"], "fsdp1");
  EXPECT_EQ(two["world"], 2);
  ASSERT_EQ(two["units"].size(), 3u);
  EXPECT_EQ(two["units"][1]["class"], "GPT2Block");
  EXPECT_EQ(model("model --accelerate c.yaml --world 4")["units"][1]["shard_elements"], 3'280 / 4);
}

TEST_F(Sharding, AnAccelerateFileAndAStrategyContradict) {
  workplace_.write("c.yaml", accelerate_file);
  EXPECT_THAT(refusal("model --accelerate c.yaml --strategy no_shard", 2), HasSubstr("--strategy"));
}

TEST_F(Sharding, TheTrainersWordsAreUnderstood) {
  const Json json = model("model --fsdp \"full_shard auto_wrap\" --world 2");
  EXPECT_EQ(json["runtime"], "fsdp2");
  EXPECT_EQ(json["strategy"], "full_shard");
}

TEST_F(Sharding, ADeepSpeedFileWithAutoIsFilledInAsTheTrainerDoes) {
  workplace_.write("ds.json", R"({"bf16": {"enabled": "auto"}, "train_batch_size": "auto",
      "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}})");
  const Json json = model("model --deepspeed ds.json --world 2 --precision bf16_mixed");
  EXPECT_EQ(json["strategy"], "shard_grad_op");
  EXPECT_EQ(json["totals"]["per_rank"]["p_bytes"], 11'200 * 2);
}

TEST_F(Sharding, UnitsByHandAreTakenFromAFile) {
  workplace_.write("units.json", R"([["transformer.h.1"]])");
  const Json json = model("model --runtime fsdp1 --world 2 --wrap units:units.json");
  ASSERT_EQ(json["units"].size(), 2u);
  EXPECT_EQ(json["units"][1]["name"], "transformer.h.1");
  EXPECT_EQ(json["units"][0]["elements"], 11'200 - 3'280);
}

TEST_F(Sharding, AModuleThatTheModelDoesNotHaveIsNamedWithTheNearest) {
  workplace_.write("units.json", R"([["transformer.g.1"]])");
  EXPECT_THAT(refusal("model --runtime fsdp1 --world 2 --wrap units:units.json", 2),
              HasSubstr("transformer.h.1"));
}

TEST_F(Sharding, AUnitOfSeveralModulesIsNoneOfFsdp1s) {
  workplace_.write("units.json", R"([["transformer.h.0", "transformer.h.1"]])");
  EXPECT_THAT(refusal("model --runtime fsdp1 --world 2 --wrap units:units.json", 2),
              HasSubstr("fsdp2"));
}

TEST_F(Sharding, AModuleInTwoUnitsIsRefusedWithItsLine) {
  workplace_.write("units.json", "[[\"transformer.h.0\"],\n [\"transformer.h.0\"]]");
  EXPECT_THAT(refusal("model --runtime fsdp1 --world 2 --wrap units:units.json", 2),
              HasSubstr("units.json:2"));
}

TEST_F(Sharding, ZeroOneIsNoStrategyOfFsdp1) {
  EXPECT_THAT(refusal("model --runtime fsdp1 --world 2 --strategy zero1", 2),
              HasSubstr("deepspeed"));
}

TEST_F(Sharding, TrainSaysThatItRunsTheNativeRuntimeOnly) {
  const Outcome outcome = workplace_.run("train job.json --accelerate config.yaml");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("shardscope simulate"));
  EXPECT_EQ(lines_of(outcome.errors), 1u);
}

}  // namespace
}  // namespace shardscope::testing
