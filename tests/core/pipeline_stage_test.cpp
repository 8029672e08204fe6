// What torch.distributed.pipelining's stages do: backward in two parts, layers of torchtitan's
// stages, and pairs of ranks that connect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/parallel/pipeline_channel.h"
#include "core/pytorch/parallel/stage_backward.h"
#include "core/pytorch/parallel/torchtitan_stages.h"
#include "tests/core/operator_log.h"

namespace shardscope::eager::parallel {
namespace {

using testing::ElementsAre;

std::ptrdiff_t products(const OperatorLog& log) {
  return std::ranges::count(log.names(), "mm.default");
}

// tanh(x w1) w2: a product for each gradient of an activation, and one for each of a weight.
TEST(StageBackward, ComputesGradientsOfInputAndWeightsApart) {
  Session s{{.device = Device::cpu, .watched = true}};
  OperatorLog log;
  s.observe(log);
  const Tensor x = leaf(s, {4, 8}), w1 = leaf(s, {8, 6}), w2 = leaf(s, {6, 2});
  Tensor output = mm(s, tanh(s, mm(s, x, w1)), w2);
  const Tensor gradient = ones_like(s, output);
  const Edge edge = gradient_edge(s, output);
  WeightGroups groups;
  log.clear();
  const Tensor of_x = stage_backward_input(s, edge, gradient, x, {w1, w2}, groups);
  EXPECT_EQ(products(log), 2);
  EXPECT_EQ(of_x.sizes(), x.sizes());
  EXPECT_TRUE(x.grad().is(of_x));
  EXPECT_FALSE(w1.grad().defined());
  ASSERT_EQ(groups.size(), 2U);  // each weight's gradient begins at its own product
  log.clear();
  stage_backward_weight(s, {w1, w2}, groups);
  EXPECT_EQ(products(log), 2);
  EXPECT_EQ(w1.grad().sizes(), w1.sizes());
  EXPECT_EQ(w2.grad().sizes(), w2.sizes());
}

// The tanh's result is saved by the tanh and by the second product: it goes with the last of them.
TEST(StageBackward, KeepsWhatIsSavedUntilTheWeightsAreDone) {
  Session s{{.device = Device::cpu, .watched = true}};
  const Tensor x = leaf(s, {4, 8}), w1 = leaf(s, {8, 6}), w2 = leaf(s, {6, 2});
  WeightGroups groups;
  std::int32_t held = 0;
  Storage kept;
  {
    Tensor hidden = tanh(s, mm(s, x, w1));
    kept = hidden.storage();
    Tensor output = mm(s, std::move(hidden), w2);
    const Tensor gradient = ones_like(s, output);
    stage_backward_input(s, gradient_edge(s, output), gradient, x, {w1, w2}, groups);
    held = kept->references();
  }
  EXPECT_GT(kept->references(), 1);
  EXPECT_GE(held, kept->references());
  stage_backward_weight(s, {w1, w2}, groups);
  EXPECT_EQ(kept->references(), 1);
}

// Recorded: torch 2.15 on the CPU, checkpoint(lambda h: h + b(tanh(a(h)))) without reentrance: the
// block runs again for its input, and once more for each of its two weights.
TEST(StageBackward, RunsACheckpointedBlockAgainForTheInputAndForEachWeight) {
  Session s{{.device = Device::cpu, .watched = true}};
  OperatorLog log;
  s.observe(log);
  const auto tanhs = [&] { return std::ranges::count(log.names(), "tanh.default"); };
  const Tensor x = leaf(s, {6, 4}), a = leaf(s, {8, 4}), b = leaf(s, {4, 8});
  const auto block = [&](Session&, const Arguments& arguments) -> Tensors {
    return {add(s, arguments[0], linear(s, tanh(s, linear(s, arguments[0], a)), b))};
  };
  Tensor output = checkpoint(s, {}, block, {x})[0];
  const Tensor gradient = ones_like(s, output);
  WeightGroups groups;
  log.clear();
  stage_backward_input(s, gradient_edge(s, output), gradient, x, {a, b}, groups);
  EXPECT_EQ(tanhs(), 1);
  EXPECT_EQ(products(log), 1 + 2);
  log.clear();
  stage_backward_weight(s, {a, b}, groups);
  EXPECT_EQ(tanhs(), 2);
  EXPECT_EQ(products(log), 2 + 2);
}

TEST(AutogradGrad, RunsOnlyWhatLeadsToItsInputs) {
  Session s{{.device = Device::cpu, .watched = true}};
  OperatorLog log;
  s.observe(log);
  const Tensor x = leaf(s, {3}), y = leaf(s, {3});
  const Tensor output = add(s, sin(s, x), cos(s, y));
  log.clear();
  const Tensors got = s.engine().grad({.outputs = {gradient_edge(s, output)},
                                       .gradients = {ones_like(s, output)},
                                       .inputs = {gradient_edge(s, x)}});
  EXPECT_THAT(log.names(), ElementsAre("ones_like.default", "cos.default", "mul.Tensor"));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(got.front().defined());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(y.grad().defined());
}

// By torchtitan 01db32e's generate_llm_fqn_per_model_part.
TEST(TorchtitanStages, HaveTheLayersThatTorchtitanGivesThem) {
  const auto layers = [](int stages, int all, int input, int output) {
    return torchtitan_layers(all, stages, {.input_weight = input, .output_weight = output}, "here");
  };
  EXPECT_THAT(layers(4, 32, 1, 1), ElementsAre(8, 9, 8, 7));
  EXPECT_THAT(layers(8, 32, 1, 1), ElementsAre(4, 5, 4, 4, 4, 4, 4, 3));
  EXPECT_THAT(layers(2, 4, 1, 1), ElementsAre(2, 2));
  EXPECT_THAT(layers(3, 10, 0, 2), ElementsAre(4, 4, 2));
  EXPECT_THAT(layers(4, 2, 1, 1), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(layers(4, 8, 2, 1), ElementsAre(1, 3, 3, 1));
  EXPECT_THROW(layers(4, 4, 3, 1), Error);
  EXPECT_THROW(layers(8, 4, 1, 1), Error);
}

TEST(TorchtitanStages, FollowFromLayersPerStage) {
  const auto stages = [](int per_stage, bool single) {
    return torchtitan_stages_per_rank(30, 4, single, {.layers_per_stage = per_stage}, "here");
  };
  EXPECT_EQ(stages(4, false), 2);  // 32 layers: 8 stages on 4 ranks
  EXPECT_EQ(stages(8, true), 1);
  EXPECT_THROW(stages(4, true), Error);
  EXPECT_THROW(stages(8, false), Error);
  EXPECT_THROW(stages(5, false), Error);  // 7 stages
}

TEST(TorchtitanStages, AreReadAsWritten) {
  const auto read = [](std::string_view text) { return parse_torchtitan_split(text, "here"); };
  EXPECT_FALSE(read("layers"));
  EXPECT_EQ(read("torchtitan")->output_weight, 1);
  EXPECT_EQ(read("torchtitan:0,2")->output_weight, 2);
  EXPECT_EQ(read("torchtitan:0,2,4")->layers_per_stage, 4);
  for (const char* bad : {"torchtitan:", "torchtitan:1", "torchtitan:1,x", "torchtitan,1,1",
                          "torchtitan:1,1,0", "torchtitan:1,1,1,1"})
    EXPECT_THROW(read(bad), Error) << bad;
}

// _physical_edge_matchings of torch 2.15, whose documentation has the second example.
TEST(PipelineChannel, ConnectsPairsInRoundsWithoutACommonRank) {
  using Round = std::vector<std::pair<int, int>>;
  EXPECT_THAT(connection_rounds({0, 1, 2, 3}), ElementsAre(Round{{0, 1}, {2, 3}}, Round{{1, 2}}));
  EXPECT_THAT(connection_rounds({0, 1, 2, 3, 0, 1, 2, 3}),
              ElementsAre(Round{{0, 1}, {2, 3}}, Round{{0, 3}, {1, 2}}));
  EXPECT_THAT(connection_rounds({0, 1, 1, 0}), ElementsAre(Round{{0, 1}}));
}

}  // namespace
}  // namespace shardscope::eager::parallel
