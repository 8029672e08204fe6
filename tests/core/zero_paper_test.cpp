#include "core/native/zero_paper.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/native/native_abilities.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/model_states.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

TEST(ZeroPaper, FigureOneOfThePaper) {
  // Figure 1: 7.5 billion parameters, Adam in mixed precision (K = 12), 64 ranks: 120 GB; P_os 31.4
  // GB; P_os+g 16.6 GB; P_os+g+p 1.9 GB. By hand: 2 + 2 + 12 = 16 bytes * 7.5e9 = 120e9; 4 * 7.5e9
  // + 12 * 7.5e9 / 64 = 31.40625e9; ...
  const std::int64_t elements = 7'500'000'000;
  const auto total = [&](ShardingStrategy sharding) {
    const ModelStates s =
        zero_paper_states(elements, sharding, 64, {}, Precision::bf16_mixed, Dtype::bfloat16);
    return (s.parameters + s.gradients + s.optimizer_states).count;
  };
  EXPECT_EQ(total(ShardingStrategy::no_shard), 120'000'000'000);
  EXPECT_EQ(total(ShardingStrategy::zero1), 31'406'250'000);
  EXPECT_EQ(total(ShardingStrategy::shard_grad_op), 16'640'625'000);
  EXPECT_EQ(total(ShardingStrategy::full_shard), 1'875'000'000);
}

TEST(ZeroPaper, OptimizerBytes) {
  const Optimizer adamw;
  const Optimizer sgd{.kind = OptimizerKind::sgd, .momentum = 0.9};
  const Optimizer plain{.kind = OptimizerKind::sgd, .momentum = 0};
  EXPECT_EQ(optimizer_bytes_per_element(adamw, Precision::bf16_mixed), 12);
  EXPECT_EQ(optimizer_bytes_per_element(adamw, Precision::fp32), 8);
  EXPECT_EQ(optimizer_bytes_per_element(sgd, Precision::fp32), 4);
  EXPECT_EQ(optimizer_bytes_per_element(plain, Precision::fp32), 0);
  EXPECT_EQ(optimizer_bytes_per_element(sgd, Precision::bf16_mixed), 8);
  EXPECT_EQ(optimizer_bytes_per_element(adamw, Precision::bf16), 4);
  EXPECT_EQ(optimizer_bytes_per_element(sgd, Precision::bf16), 2);
}

TEST(ZeroPaper, GradientDtypeIsAnArgument) {
  const auto gradients = [](Dtype dtype) {
    return zero_paper_states(1000, ShardingStrategy::no_shard, 1, {}, Precision::bf16_mixed, dtype)
        .gradients;
  };
  EXPECT_EQ(gradients(Dtype::bfloat16), 2000_B);
  EXPECT_EQ(gradients(Dtype::float32), 4000_B);
}

/// Bytes of an element in each kind of model state, by hand.
struct StoredBytes {
  Precision precision;
  Bytes parameter, gradient;
};

/// Of a strategy and world: each rank holds what the paper says of the padded sizes, and the ranks
/// of a replica hold each element once, or once a rank where it is not sharded.
void expect_the_papers_bytes(const Strategy& strategy, const Optimizer& optimizer,
                             const StoredBytes& stored) {
  const Model model = testing::small_gpt2(3);
  const std::int64_t elements = 3 * 872 + 208;
  const int shards = strategy.mesh.shard;
  const Dtype gradient_dtype = stored.gradient == 2_B ? Dtype::bfloat16 : Dtype::float32;
  ModelStates of_parameters;  // over the ranks of one replica, padding taken away
  for (int rank = 0; rank < strategy.mesh.world(); ++rank) {
    const Schedule schedule =
        native_schedule(model, strategy, {.batch = 1, .length = 4, .optimizer = optimizer}, rank);
    const ModelStates states = states_of(schedule);
    const ModelStates padding = padding_of(schedule);
    std::int64_t padded = 0;
    for (const Unit& unit : schedule.units) padded += unit.padded_elements;
    EXPECT_EQ(states, zero_paper_states(padded, strategy.sharding, shards, optimizer,
                                        stored.precision, gradient_dtype));
    if (rank >= shards) continue;
    of_parameters.parameters += states.parameters - padding.parameters;
    of_parameters.gradients += states.gradients - padding.gradients;
    of_parameters.optimizer_states += states.optimizer_states - padding.optimizer_states;
  }
  using enum ShardingStrategy;
  const auto copies = [&](bool sharded) { return sharded ? 1 : shards; };
  const bool zero3 = strategy.sharding == full_shard || strategy.sharding == hybrid_shard;
  const bool zero2 =
      zero3 || strategy.sharding == shard_grad_op || strategy.sharding == hybrid_shard_zero2;
  const bool zero1_too = zero2 || strategy.sharding == zero1;
  EXPECT_EQ(of_parameters.parameters, stored.parameter * elements * copies(zero3));
  EXPECT_EQ(of_parameters.gradients, stored.gradient * elements * copies(zero2));
  EXPECT_EQ(of_parameters.optimizer_states,
            Bytes{optimizer_bytes_per_element(optimizer, stored.precision)} * elements *
                copies(zero1_too));
}

class ZeroPaperProperty : public ::testing::TestWithParam<Precision> {};

TEST_P(ZeroPaperProperty, TheScheduleAgreesForEveryStrategyAndWorld) {
  // Parameters and gradients: 4 and 4 bytes in fp32, 2 and 2 in bf16, 2 and 4 in mixed precision.
  const StoredBytes stored{GetParam(), GetParam() == Precision::fp32 ? 4_B : 2_B,
                           GetParam() == Precision::bf16 ? 2_B : 4_B};
  for (const Optimizer& optimizer : {Optimizer{}, Optimizer{.kind = OptimizerKind::sgd},
                                     Optimizer{.kind = OptimizerKind::sgd, .momentum = 0}}) {
    for (ShardingStrategy sharding : native_abilities().strategies) {
      for (int world = 1; world <= 8; ++world) {
        SCOPED_TRACE(fmt::format("{}, world {}", name_of(sharding), world));
        Strategy strategy{.sharding = sharding, .precision = GetParam()};
        if (is_hybrid(sharding)) {
          if (world < 4 || world % 2 != 0) continue;
          strategy.mesh = {.replicate = 2, .shard = world / 2};
        }
        expect_the_papers_bytes(resolved(strategy, world, "test"), optimizer, stored);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ZeroPaperProperty,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::bf16_mixed),
                         [](const auto& precision) {
                           return std::string(name_of(precision.param));
                         });

}  // namespace
}  // namespace shardscope
