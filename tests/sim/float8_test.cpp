// Products in 8 bits and their casts, counted by hand.
#include "sim/kernels/float8.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/hardware/hardware_profile.h"
#include "sim/kernels/device_efficiency.h"

namespace shardscope {
namespace {

/// One step of one layer: x [64, 32] by a weight [16, 32], and the two products of its backward.
class OneLayer : public ::testing::Test {
 protected:
  OneLayer() { schedule_.program.lanes.push_back({.name = "compute", .stream = Stream::compute}); }

  void add(const std::string& owner, Phase phase, MatmulShape shape) {
    schedule_.owners.push_back(owner);
    schedule_.names.emplace_back("aten.mm.default");
    schedule_.works.push_back(
        {.kind = WorkKind::matmul, .dtype = Dtype::bfloat16, .matmul = shape});
    Operation op{.name = static_cast<std::uint32_t>(schedule_.names.size() - 1), .phase = phase};
    op.owner = OwnerId::of(schedule_.owners.size() - 1);
    op.work = static_cast<std::uint32_t>(schedule_.works.size() - 1);
    schedule_.operations.push_back(op);
    schedule_.program.actions.push_back(
        {.kind = HostActionKind::launch,
         .subject = static_cast<std::uint32_t>(schedule_.operations.size() - 1)});
  }
  void add_layer(const std::string& name) {
    add(name, Phase::forward, {.batch = 1, .m = 64, .n = 16, .k = 32});
    add(name, Phase::backward, {.batch = 1, .m = 64, .n = 32, .k = 16});
    schedule_.operations.back().owner = schedule_.operations.front().owner;
    add(name, Phase::backward, {.batch = 1, .m = 16, .n = 32, .k = 64});
    schedule_.operations.back().owner = schedule_.operations.front().owner;
  }

  /// Bytes of the casts and 0 for each product in 8 bits, -1 for one that is as it was.
  std::vector<std::int64_t> cast(const Float8Kernels& kernels) {
    const auto count = static_cast<std::uint32_t>(schedule_.operations.size());
    schedule_.steps.push_back({.label = "steady", .operations = {0, count}, .actions = {0, count}});
    const Schedule made = with_float8(schedule_, kernels);
    EXPECT_EQ(made.steps.back().actions.size(), made.program.actions.size());
    std::vector<std::int64_t> found;
    for (const HostAction& action : made.program.actions) {
      const DeviceWork& work = made.works[made.operations[action.subject].work];
      const bool product = work.kind == WorkKind::matmul;
      found.push_back(!product ? work.bytes.count : work.dtype == Dtype::uint8 ? 0 : -1);
    }
    return found;
  }

  Schedule schedule_;
};
using Moved = std::vector<std::int64_t>;

TEST_F(OneLayer, TransformerEngineCastsInputAndGradientOnce) {
  add_layer("model.layers.0.mlp.down_proj");
  // 64 x 32 of the input, 64 x 16 of the gradient: 2 bytes read, 2 written.
  EXPECT_EQ(cast({.casts = Float8Casts::delayed}), (Moved{64 * 32 * 4, 0, 64 * 16 * 4, 0, 0}));
}

/// torchao's rowwise recipe: everything is cast once along the rows and once across them, where the
/// largest values take a pass of their own; cuBLAS scales nothing, so a pass behind both products
/// of the backward does.
TEST_F(OneLayer, ScalesOfRowsCastTwiceAndScaleBehindTheBackward) {
  add_layer("model.layers.0.mlp.down_proj");
  const std::int64_t forward = (64 * 32 + 16 * 32) * 3;
  const std::int64_t of_input = 64 * 16 * 3 + 16 * 32 * 5 + 64 * 32 * 4;
  const std::int64_t of_weight = 64 * 16 * 5 + 64 * 32 * 5 + 16 * 32 * 4;
  EXPECT_EQ(cast({.casts = Float8Casts::rowwise, .casts_weights = true}),
            (Moved{forward, 0, of_input, 0, of_weight, 0}));
}

/// At half the rate the cast across the rows takes as long as 6 bytes for its 3, behind the 2 of
/// the largest value: 8 in the place of 5. The casts along the rows stay.
TEST_F(OneLayer, CastsAcrossTheRowsAreSlowWhereTheyAreWrittenTransposed) {
  add_layer("model.layers.0.mlp.down_proj");
  const std::int64_t of_input = 64 * 16 * 3 + 16 * 32 * 8 + 64 * 32 * 4;
  const std::int64_t of_weight = 64 * 16 * 8 + 64 * 32 * 8 + 16 * 32 * 4;
  EXPECT_EQ(cast({.casts = Float8Casts::rowwise, .transposed_casts = 0.5}),
            (Moved{64 * 32 * 3, 0, of_input, 0, of_weight, 0}));
}

TEST_F(OneLayer, ScalesOfTheValuesTakeAPassMore) {
  add_layer("model.layers.0.mlp.down_proj");
  EXPECT_EQ(cast({.casts = Float8Casts::current}), (Moved{64 * 32 * 6, 0, 64 * 16 * 6, 0, 0}));
}

/// The gradient is read twice, and written as it lies and transposed: 6 bytes.
TEST_F(OneLayer, TorchaoCastsTheInputAgainAndTheWeight) {
  add_layer("model.layers.0.mlp.gate_proj");
  EXPECT_EQ(cast({.casts = Float8Casts::compiled, .casts_weights = true}),
            (Moved{(64 * 32 + 32 * 16) * 3, 0, 64 * 16 * 6 + 16 * 32 * 3, 0, 64 * 32 * 3, 0}));
}

/// A weight that was gathered in 8 bits is copied, transposed, for the backward: 1 read, 1 written.
TEST_F(OneLayer, TorchaoTransposesWeightsOfEightBits) {
  add_layer("model.layers.0.mlp.gate_proj");
  EXPECT_EQ(cast({.casts = Float8Casts::compiled}),
            (Moved{64 * 32 * 3, 0, 64 * 16 * 6 + 16 * 32 * 2, 0, 64 * 32 * 3, 0}));
}

/// The largest value of a block's own gradient, and of attention's output, takes a pass that reads
/// 2: what wrote them is no kernel of the compiled block.
TEST_F(OneLayer, TorchaoSeeksTheLargestOfWhatComesFromElsewhere) {
  add_layer("model.layers.0.mlp.down_proj");
  EXPECT_EQ(cast({.casts = Float8Casts::compiled}),
            (Moved{64 * 32 * 3, 0, 64 * 16 * 8 + 16 * 32 * 2, 0, 64 * 32 * 3, 0}));
}
TEST_F(OneLayer, TorchaoSeeksTheLargestOfAttention) {
  add("layers.0.self_attn.o_proj", Phase::forward, {.batch = 1, .m = 64, .n = 16, .k = 32});
  EXPECT_EQ(cast({.casts = Float8Casts::compiled}), (Moved{64 * 32 * 5, 0}));
}

/// AOTAutograd leaves one cast of an input that layers share, in the backward as well.
TEST_F(OneLayer, LayersBesideEachOtherShareTheCastOfTheBackward) {
  add_layer("layers.0.self_attn.k_proj");
  EXPECT_EQ(cast({.casts = Float8Casts::compiled}), (Moved{0, 64 * 16 * 6 + 16 * 32 * 2, 0, 0}));
  schedule_.steps.clear();
  EXPECT_EQ(cast({.casts = Float8Casts::rowwise}),
            (Moved{0, 64 * 16 * 3 + 16 * 32 * 5 + 64 * 32 * 4, 0, 64 * 16 * 5 + 16 * 32 * 4, 0}));
}

TEST_F(OneLayer, LayersBesideEachOtherShareTheCast) {
  add("layers.0.self_attn.q_proj", Phase::forward, {.batch = 1, .m = 64, .n = 16, .k = 32});
  add("layers.0.self_attn.k_proj", Phase::forward, {.batch = 1, .m = 64, .n = 16, .k = 32});
  EXPECT_EQ(cast({.casts = Float8Casts::delayed}), (Moved{64 * 32 * 4, 0, 0}));
}

TEST_F(OneLayer, HeadsAndScoresStayAsTheyAre) {
  add("lm_head", Phase::forward, {.batch = 1, .m = 64, .n = 16, .k = 32});
  add("layers.0.self_attn", Phase::forward, {.batch = 4, .m = 16, .n = 16, .k = 8});
  EXPECT_EQ(cast({.casts = Float8Casts::delayed}), (Moved{-1, -1}));
}

/// At half the rate the backward's products take as long as with twice the depth: 32 for 16, 128
/// for 64. The forward's depth of 32 stays.
TEST_F(OneLayer, PreciseSumsSlowTheBackwardAlone) {
  add_layer("model.layers.0.mlp.down_proj");
  schedule_.steps.push_back({.label = "steady", .operations = {0, 3}, .actions = {0, 3}});
  const Schedule made =
      with_float8(schedule_, {.casts = Float8Casts::delayed, .precise_sums = 0.5});
  std::vector<std::int64_t> depths;
  for (const HostAction& action : made.program.actions) {
    const DeviceWork& work = made.works[made.operations[action.subject].work];
    if (work.kind == WorkKind::matmul) depths.push_back(work.matmul.k);
  }
  EXPECT_EQ(depths, (std::vector<std::int64_t>{32, 32, 128}));
}

/// github.com/pytorch/ao issue 2377, on Hopper: fast accumulation is 1.1 to 1.2 times as fast. Of
/// others no figure is known.
TEST(Float8, PreciseSumsAreSlowOnHopper) {
  EXPECT_GE(efficiency_of(90).matmul.precise_sums, 1 / 1.2);
  EXPECT_LE(efficiency_of(90).matmul.precise_sums, 1 / 1.1);
  EXPECT_EQ(efficiency_of(100).matmul.precise_sums, 1);
}

/// github.com/pytorch/pytorch issue 149982, an H100: 0.6 to 0.7 of 2.0 to 2.2 TB/s.
TEST(Float8, TransposedCastsAreSlowOnHopper) {
  EXPECT_GE(efficiency_of(90).memory.transposed_casts, 0.6 / 2.2);
  EXPECT_LE(efficiency_of(90).memory.transposed_casts, 0.7 / 2.0);
}

TEST(Float8, GathersOfBlocksAreHalfAsLarge) {
  Schedule schedule;
  schedule.owners = {"layers.0", ""};
  schedule.collectives.push_back({.elements_in = 8, .elements_out = 64, .dtype = Dtype::bfloat16});
  for (std::uint32_t i = 0; i < 2; ++i) {
    Operation op{.kind = OperationKind::all_gather, .owner = OwnerId::of(i), .bytes = 128_B};
    schedule.operations.push_back(op);
    schedule.program.actions.push_back({.kind = HostActionKind::launch, .subject = i});
  }
  schedule.steps.push_back({.label = "steady", .operations = {0, 2}, .actions = {0, 2}});
  const Schedule made =
      with_float8(schedule, {.casts = Float8Casts::compiled, .gathers_casts = true});
  EXPECT_EQ(made.operations[0].bytes, 64_B);
  EXPECT_EQ(made.operations[1].bytes, 128_B);
}

/// NVIDIA's data sheets: H100 SXM 1,979 TFLOP/s of FP8; A100 has none.
TEST(Float8, PeaksAreThoseOfTheDataSheet) {
  EXPECT_NEAR(peak_of(find_hardware_profile("h100_sxm", "t"), Dtype::uint8).flops_per_s, 1979e12,
              1e12);
  const HardwareProfile a100 = find_hardware_profile("a100_80gb", "t");
  EXPECT_EQ(peak_of(a100, Dtype::uint8), peak_of(a100, Dtype::bfloat16));
}

}  // namespace
}  // namespace shardscope
