#include "sim/planner/offload.h"

#include <gtest/gtest.h>

#include "sim/planner/choice.h"
#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

/// Of a Llama of 3 blocks: each has 128 (128 + 64 + 64 + 128) + 3 x 128 x 384 + 2 x 128 = 196,864
/// elements; outside of them are 2 x 2048 x 128 + 128. Of 1,115,008 each of 4 ranks has 278,752.
std::optional<Bytes> host_states_of(const Choice& choice, const Training& training = {}) {
  const Model model = tiny_plan().model;
  return host_states(model, training_setup(choice, model, training));
}

Choice fsdp(Runtime runtime, Offload offload) {
  return {.runtime = runtime,
          .mesh = {.shard = 4},
          .prefetch = Prefetch::pre,
          .offload = offload,
          .precision = TrainingPrecision::fp32};
}

TEST(HostStates, AreNoneWhereNothingIsOffloaded) {
  for (const Runtime runtime : {Runtime::fsdp1, Runtime::fsdp2, Runtime::deepspeed})
    EXPECT_FALSE(host_states_of(fsdp(runtime, Offload::none)));
}

// float32 parameters, gradients and two states of Adam: 278,752 x 4 x 4.
TEST(HostStates, OfFsdpAreTheShardsWithTheirStates) {
  EXPECT_EQ(host_states_of(fsdp(Runtime::fsdp1, Offload::all)), Bytes{4'460'032});
  EXPECT_EQ(host_states_of(fsdp(Runtime::fsdp2, Offload::all)), Bytes{4'460'032});
}

// accelerate before 1.13: shards are cast to float32, whatever is loaded.
TEST(HostStates, AreInTheDtypeOfTheShards) {
  const Model model = tiny_plan().model;
  eager::TrainingSetup setup = training_setup(fsdp(Runtime::fsdp2, Offload::all), model, {});
  setup.trainable_dtype = Dtype::bfloat16;
  EXPECT_EQ(host_states(model, setup), Bytes{2'230'016});
  setup.dtype_of_shards = Dtype::float32;
  EXPECT_EQ(host_states(model, setup), Bytes{4'460'032});
}

// SGD without momentum has no state: 278,752 x 4 x 2.
TEST(HostStates, FollowTheOptimizer) {
  Training sgd;
  sgd.loop.optimizer.rule = eager::OptimizerRule::sgd;
  sgd.loop.optimizer.momentum = false;
  EXPECT_EQ(host_states_of(fsdp(Runtime::fsdp2, Offload::all), sgd), Bytes{2'230'016});
}

// Shards of two ranks are twice as large.
TEST(HostStates, OfAHybridAreThoseOfItsGroup) {
  for (const Runtime runtime : {Runtime::fsdp1, Runtime::fsdp2}) {
    Choice hybrid = fsdp(runtime, Offload::all);
    hybrid.sharding = ShardingStrategy::hybrid_shard;
    hybrid.mesh = {.replicate = 2, .shard = 2};
    EXPECT_EQ(host_states_of(hybrid), Bytes{8'920'064}) << name_of(runtime);
  }
}

// 4 ranks in nodes of 2: 2 x 4,460,032.
TEST(HostStates, OfANodeAreThoseOfItsRanks) {
  const Model model = tiny_plan().model;
  HardwareProfile profile;
  profile.ranks_per_node = 2;
  const auto of_node = [&](Offload offload) {
    const Choice choice = fsdp(Runtime::fsdp2, offload);
    return host_states_of_node(model, training_setup(choice, model, {}), profile);
  };
  EXPECT_EQ(of_node(Offload::all), Bytes{8'920'064});
  EXPECT_EQ(of_node(Offload::none), Bytes{});
}

// 16 bytes an element, and 2 more where parameters are offloaded, too.
TEST(HostStates, OfDeepSpeedAreItsEstimators) {
  EXPECT_EQ(host_states_of(fsdp(Runtime::deepspeed, Offload::optimizer)), Bytes{278'752 * 16});
  EXPECT_EQ(host_states_of(fsdp(Runtime::deepspeed, Offload::all)), Bytes{278'752 * 18});
}

}  // namespace
}  // namespace shardscope::planner
