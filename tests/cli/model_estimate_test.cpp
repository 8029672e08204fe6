// `shardscope model --estimate`: what accelerate and DeepSpeed state for a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class ModelEstimate : public ::testing::Test {
 protected:
  /// accelerate 1.15.0 was recorded with it, case llama_small_tied.
  ModelEstimate() {
    workplace_.write(
        "config.json",
        R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
                         "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "vocab_size": 96, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})");
  }
  Json estimate(const std::string& arguments) const {
    const Outcome outcome = workplace_.run("model config.json --json --estimate " + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return Json::parse(outcome.output)["estimate"];
  }
  Workplace workplace_;
};

TEST_F(ModelEstimate, IsTheTableOfAccelerate) {
  const Outcome outcome = workplace_.run("model config.json --estimate accelerate");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("│float32│   160.5 KB  │369.31 KB │      1.44 MB      │"));
  EXPECT_THAT(outcome.output, HasSubstr("│  int4 │   20.06 KB  │ 46.16 KB │        N/A        │"));
  const Json row = estimate("accelerate")["rows"][0];
  EXPECT_EQ(row["largest_layer_bytes"], 164352);
  EXPECT_EQ(row["total_bytes"], 378176);
}

// 88,384 elements without the tied head. ZeRO-2 without offload (stage_1_and_2.py): 2 bytes of each
// on every GPU, 18 more divided by the GPUs: 88,384 * (2 + 18 / 8).
TEST_F(ModelEstimate, IsDeepspeedsForTheGivenNodes) {
  const Json two_nodes = estimate("deepspeed --world 8 --ranks-per-node 4");
  EXPECT_EQ(two_nodes["nodes"], 2);
  EXPECT_EQ(two_nodes["gpus_per_node"], 4);
  const Json row = two_nodes["rows"][1];
  EXPECT_EQ(row["stage"], 2);
  EXPECT_EQ(row["offload_optimizer"], false);
  EXPECT_EQ(row["per_gpu_bytes"], 375632);
}

TEST_F(ModelEstimate, RefusesOtherToolsAndPartsOfNodes) {
  EXPECT_EQ(workplace_.run("model config.json --estimate megatron").code, 2);
  const Outcome part =
      workplace_.run("model config.json --estimate deepspeed --world 8 --ranks-per-node 3");
  EXPECT_EQ(part.code, 2);
  EXPECT_THAT(part.errors, HasSubstr("--world: 8 ranks are no whole nodes of 3"));
}

}  // namespace
}  // namespace shardscope::testing
