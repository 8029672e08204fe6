// Conversions: what a format cannot say is a loss, and what was written reads back to the same.
#include "core/config/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/values/config_json.h"
#include "core/config/yaml/yaml_writer.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

constexpr ShardingStrategy every_sharding[] = {
    ShardingStrategy::no_shard,      ShardingStrategy::zero1,
    ShardingStrategy::shard_grad_op, ShardingStrategy::full_shard,
    ShardingStrategy::hybrid_shard,  ShardingStrategy::hybrid_shard_zero2};

/// Every strategy with everything else at two settings that differ throughout.
std::vector<PortableStrategy> strategies() {
  std::vector<PortableStrategy> result;
  for (const ShardingStrategy sharding : every_sharding) {
    PortableStrategy plain{.sharding = sharding, .world = 16, .machines = 2};
    if (is_hybrid(plain)) plain.shard_group = 8;
    result.push_back(plain);
    PortableStrategy other = plain;
    other.mixed_precision = "bf16";
    other.wrap = {.policy = WrapPolicy::transformer, .classes = {"GPT2Block", "Embedding"}};
    other.offload_parameters = other.offload_optimizer = OffloadDevice::cpu;
    other.activation_checkpointing = true;
    other.ignored_modules = "lm_head";
    other.backward_prefetch = BackwardPrefetch::post;
    other.forward_prefetch = true;
    other.use_original_parameters = false;
    other.sync_module_states = true;
    other.state_dict = StateDict::full;
    other.micro_batch = 4;
    other.accumulation = 2;
    other.clip = 0.5;
    other.quantized_weights = other.quantized_gradients = true;
    result.push_back(other);
    other.wrap = {.policy = WrapPolicy::size, .min_elements = 20'000'000};
    other.offload_optimizer = OffloadDevice::nvme;
    result.push_back(other);
  }
  return result;
}

std::vector<std::string> keys_of(const std::vector<Loss>& losses) {
  std::vector<std::string> keys;
  for (const Loss& loss : losses) keys.push_back(loss.key);
  return keys;
}

TEST(Convert, FittingTwiceLosesNothingMore) {
  for (const ConfigFormat format : config_formats) {
    for (const PortableStrategy& strategy : strategies()) {
      const FittedStrategy once = fitted(strategy, format);
      EXPECT_THAT(keys_of(fitted(once.strategy, format).losses), ElementsAre());
      EXPECT_EQ(fitted(once.strategy, format).strategy, once.strategy);
    }
  }
}

TEST(Convert, WhatWasWrittenForDeepSpeedReadsBackToTheSame) {
  for (const PortableStrategy& strategy : strategies()) {
    const PortableStrategy fit = fitted(strategy, ConfigFormat::deepspeed).strategy;
    const std::string text = json_text(written(fit, ConfigFormat::deepspeed), 2);
    EXPECT_EQ(read_deepspeed_strategy(read_json(text, "ds.json")), fit) << text;
  }
}

TEST(Convert, WhatWasWrittenForAccelerateReadsBackToTheSame) {
  for (const ConfigFormat format : {ConfigFormat::accelerate_v1, ConfigFormat::accelerate_v2}) {
    for (const PortableStrategy& strategy : strategies()) {
      const PortableStrategy fit = fitted(strategy, format).strategy;
      const ConfigFile file{.path = "written.yaml",
                            .kind = ConfigKind::accelerate,
                            .text = yaml_text(written(fit, format))};
      PortableStrategy read = read_strategy(file, value_of(file), {});
      EXPECT_EQ(read, fit) << name_of(format) << "\n" << file.text;
    }
  }
}

TEST(Convert, AThirdFormatInBetweenKeepsTheStrategy) {
  for (const ShardingStrategy sharding :
       {ShardingStrategy::shard_grad_op, ShardingStrategy::full_shard,
        ShardingStrategy::hybrid_shard}) {
    PortableStrategy strategy{.sharding = sharding, .world = 16, .machines = 2};
    if (is_hybrid(strategy)) strategy.shard_group = 8;
    const PortableStrategy by_deepspeed = read_deepspeed_strategy(
        written(fitted(strategy, ConfigFormat::deepspeed).strategy, ConfigFormat::deepspeed));
    EXPECT_EQ(by_deepspeed.sharding, sharding);
    EXPECT_EQ(by_deepspeed.shard_group, strategy.shard_group);
  }
}

struct Stage {
  ShardingStrategy sharding;
  int stage;
};
void PrintTo(const Stage& stage, std::ostream* out) { *out << name_of(stage.sharding); }

class DeepSpeedStage : public ::testing::TestWithParam<Stage> {};

// accelerate's own table of equivalents: docs/source/concept_guides/fsdp_and_deepspeed.md
TEST_P(DeepSpeedStage, IsTheEqualOfTheStrategy) {
  PortableStrategy strategy{.sharding = GetParam().sharding, .world = 16, .machines = 2};
  if (is_hybrid(strategy)) strategy.shard_group = 8;
  const ConfigValue config =
      written(fitted(strategy, ConfigFormat::deepspeed).strategy, ConfigFormat::deepspeed);
  EXPECT_EQ(config.at("zero_optimization").at("stage"), ConfigValue(GetParam().stage));
}

INSTANTIATE_TEST_SUITE_P(Strategies, DeepSpeedStage,
                         ::testing::Values(Stage{ShardingStrategy::no_shard, 0},
                                           Stage{ShardingStrategy::zero1, 1},
                                           Stage{ShardingStrategy::shard_grad_op, 2},
                                           Stage{ShardingStrategy::full_shard, 3},
                                           Stage{ShardingStrategy::hybrid_shard, 3},
                                           Stage{ShardingStrategy::hybrid_shard_zero2, 2}));

TEST(Convert, AHybridIsStage3WithTheRanksOfANodeAsItsSecondPartition) {
  const PortableStrategy strategy{
      .sharding = ShardingStrategy::hybrid_shard, .world = 32, .machines = 4, .shard_group = 8};
  const ConfigValue config =
      written(fitted(strategy, ConfigFormat::deepspeed).strategy, ConfigFormat::deepspeed);
  EXPECT_EQ(config.at("zero_optimization").at("zero_hpz_partition_size"), ConfigValue(8));
}

TEST(Convert, AHybridOfVersion2IsAMeshOfReplicasAndShards) {
  const PortableStrategy strategy{.sharding = ShardingStrategy::hybrid_shard_zero2,
                                  .world = 32,
                                  .machines = 4,
                                  .shard_group = 8};
  const ConfigValue config =
      written(fitted(strategy, ConfigFormat::accelerate_v2).strategy, ConfigFormat::accelerate_v2);
  const ConfigValue& mesh = config.at("parallelism_config");
  EXPECT_EQ(mesh.at("parallelism_config_dp_replicate_size"), ConfigValue(4));
  EXPECT_EQ(mesh.at("parallelism_config_dp_shard_size"), ConfigValue(8));
  EXPECT_EQ(config.at("fsdp_config").at("fsdp_reshard_after_forward"), ConfigValue(false));
}

TEST(Convert, RanksThatAreNoWholeGroupsAreNoHybrid) {
  const PortableStrategy strategy{
      .sharding = ShardingStrategy::hybrid_shard, .world = 12, .machines = 1, .shard_group = 8};
  const FittedStrategy fit = fitted(strategy, ConfigFormat::accelerate_v2);
  EXPECT_EQ(fit.strategy.sharding, ShardingStrategy::full_shard);
  EXPECT_THAT(keys_of(fit.losses), ElementsAre("fsdp_sharding_strategy"));
}

TEST(Convert, ZeroOneHasNoEqualInAccelerate) {
  const FittedStrategy fit =
      fitted({.sharding = ShardingStrategy::zero1, .world = 4}, ConfigFormat::accelerate_v1);
  EXPECT_EQ(fit.strategy.sharding, ShardingStrategy::shard_grad_op);
  EXPECT_THAT(keys_of(fit.losses), ElementsAre("zero_optimization.stage"));
}

TEST(Convert, KeysThatOnlyDeepSpeedKnowsAreNamedOneByOne) {
  const PortableStrategy read = read_deepspeed_strategy(read_json(
      R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "sub_group_size": "auto"},
          "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"}, "train_batch_size": "auto"})",
      "ds.json"));
  FittedStrategy fit = fitted(read, ConfigFormat::accelerate_v2);
  EXPECT_THAT(
      keys_of(fit.losses),
      ElementsAre("num_processes", "zero_optimization.reduce_bucket_size", "optimizer.type"));
  EXPECT_EQ(fit.strategy.mixed_precision, "bf16");
}

TEST(Convert, KeysThatOnlyDeepSpeedKnowsStayInItsOwnFile) {
  const ConfigValue config =
      read_json(R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": 500}})", "ds.json");
  const FittedStrategy fit = fitted(read_deepspeed_strategy(config), ConfigFormat::deepspeed);
  EXPECT_EQ(written(fit.strategy, ConfigFormat::deepspeed)
                .at("zero_optimization")
                .at("reduce_bucket_size"),
            ConfigValue(500));
  EXPECT_THAT(keys_of(fit.losses), ElementsAre());
}

}  // namespace
}  // namespace shardscope
