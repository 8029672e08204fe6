// `shardscope convert`: formats into one another, losses on standard error, files written whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* hybrid =
    "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nmain_process_ip: 10.0.0.1\n"
    "num_processes: 16\nfsdp_config:\n  fsdp_version: 1\n  fsdp_sharding_strategy: HYBRID_SHARD\n"
    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
    "  fsdp_transformer_layer_cls_to_wrap: GPT2Block\n";

class Convert : public ::testing::Test {
 protected:
  Convert() { workplace_.write("hybrid.yaml", hybrid); }
  Workplace workplace_;
};

TEST_F(Convert, AHybridBecomesZeroPlusPlus) {
  const Outcome outcome = workplace_.run("convert hybrid.yaml --to deepspeed");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  EXPECT_EQ(json["zero_optimization"]["stage"], 3);
  EXPECT_EQ(json["zero_optimization"]["zero_hpz_partition_size"], 8);
  EXPECT_EQ(json["bf16"]["enabled"], true);
  EXPECT_THAT(outcome.errors, HasSubstr("lost: fsdp_auto_wrap_policy: "));
}

TEST_F(Convert, AHybridBecomesAMeshUnderVersion2) {
  const Outcome outcome = workplace_.run("convert hybrid.yaml --to accelerate-v2");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("parallelism_config_dp_replicate_size: 2\n"));
  EXPECT_THAT(outcome.output, HasSubstr("parallelism_config_dp_shard_size: 8\n"));
  EXPECT_THAT(outcome.output, HasSubstr("main_process_ip: 10.0.0.1\n"));
}

TEST_F(Convert, AFileIsWrittenInsteadOfStandardOutput) {
  const Outcome outcome = workplace_.run("convert hybrid.yaml --to deepspeed -o ds.json --quiet");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output + outcome.errors, "");
  EXPECT_EQ(Json::parse(workplace_.read("ds.json"))["zero_optimization"]["stage"], 3);
}

TEST_F(Convert, AFileThatCannotBeWrittenIsExitThree) {
  EXPECT_EQ(workplace_.run("convert hybrid.yaml --to deepspeed -o nowhere/ds.json --quiet").code,
            3);
}

TEST_F(Convert, LossesAreInTheJson) {
  const Json json = Json::parse(workplace_.run("convert hybrid.yaml --to deepspeed --json").output);
  EXPECT_EQ(json["schema"], "shardscope.convert/1");
  EXPECT_EQ(json["format"], "deepspeed");
  EXPECT_FALSE(json["losses"].empty());
  EXPECT_EQ(json["losses"][0]["key"], "num_processes");
}

TEST_F(Convert, AnUnknownFormatIsOneLine) {
  const Outcome outcome = workplace_.run("convert hybrid.yaml --to megatron");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("accelerate-v1, accelerate-v2, deepspeed"));
}

TEST_F(Convert, AFileOfAToolNamesWhatItLeavesOut) {
  workplace_.write(
      "qlora.yml",
      "base_model: m\nadapter: qlora\nload_in_4bit: true\nlora_target_linear: true\n"
      "sequence_len: 1024\nmicro_batch_size: 2\ndatasets: [{path: d, type: alpaca}]\n");
  const Outcome outcome = workplace_.run("convert qlora.yml --to llama-factory");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("quantization_bit: 4\n"));
  EXPECT_THAT(outcome.errors, HasSubstr("left out: datasets: "));
  const Json json =
      Json::parse(workplace_.run("convert qlora.yml --to llama-factory --json").output);
  EXPECT_EQ(json["format"], "llama-factory");
  EXPECT_EQ(json["left_out"][0]["key"], "datasets");
}

}  // namespace
}  // namespace shardscope::testing
