// State of bitsandbytes' AdamW and Lion, and of transformers' Adafactor. Expectations by hand from
// optim/optimizer.py of bitsandbytes 0.50.2 and optimization.py of transformers 5.24.
#include <gtest/gtest.h>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/common/optimizer.h"

namespace shardscope::eager {
namespace {

ParameterOptimizer after_a_step(Session& s, std::int64_t elements, BitsAndBytesOptimizer kind) {
  const Tensor parameter = empty(s, {elements}, {Dtype::float32, Device::cuda});
  parameter.set_requires_grad(true);
  parameter.set_grad(empty_like(s, parameter));
  ParameterOptimizer optimizer({parameter}, {.bitsandbytes = kind});
  optimizer.step(s);
  return optimizer;
}

TEST(BitsAndBytesOptimizer, KeepsBytesAndAScaleFor256Elements) {
  Session s;
  const ParameterOptimizer optimizer = after_a_step(s, 5000, {.bits = 8});
  const ParameterOptimizer::State& state = optimizer.states().front();
  EXPECT_EQ(state.first_moment.dtype(), Dtype::uint8);
  EXPECT_EQ(state.second_moment.bytes().count, 5000);
  EXPECT_EQ(state.first_scales.numel(), 20);  // 5000 / 256, rounded up
  EXPECT_EQ(optimizer.code_tables().size(), 2u);
}

TEST(BitsAndBytesOptimizer, KeepsFloatsBelow4096Elements) {
  Session s;
  const ParameterOptimizer optimizer = after_a_step(s, 4095, {.bits = 8});
  EXPECT_EQ(optimizer.states().front().first_moment.dtype(), Dtype::float32);
  EXPECT_FALSE(optimizer.states().front().first_scales);
  EXPECT_TRUE(optimizer.code_tables().empty());
}

// GlobalOptimManager.register_module_override of the Trainer.
TEST(BitsAndBytesOptimizer, KeepsFloatsOfWhatIsOverruled) {
  Session s;
  const auto parameter = [&] {
    const Tensor made = empty(s, {5000}, {Dtype::float32, Device::cuda});
    made.set_requires_grad(true);
    made.set_grad(empty_like(s, made));
    return made;
  };
  const Tensor embedding = parameter();
  ParameterOptimizer optimizer({parameter(), embedding},
                               {.bitsandbytes = BitsAndBytesOptimizer{.bits = 8}});
  optimizer.keep_in_float({embedding});
  optimizer.step(s);
  EXPECT_EQ(optimizer.states()[0].first_moment.dtype(), Dtype::uint8);
  EXPECT_EQ(optimizer.states()[1].first_moment.dtype(), Dtype::float32);
  EXPECT_EQ(optimizer.states()[1].second_moment.bytes().count, 20'000);
  EXPECT_FALSE(optimizer.states()[1].first_scales);
}

TEST(BitsAndBytesOptimizer, PagesFrom100000Elements) {
  Session s;
  const BitsAndBytesOptimizer paged{.bits = 32, .paged = true};
  EXPECT_EQ(after_a_step(s, 99'999, paged).states().front().first_moment.device(), Device::cuda);
  EXPECT_EQ(after_a_step(s, 100'000, paged).states().front().first_moment.device(), Device::cpu);
}

TEST(BitsAndBytesOptimizer, KeepsOneMomentOfLion) {
  Session s;
  const ParameterOptimizer lion = after_a_step(s, 5000, {.bits = 8, .one_moment = true});
  EXPECT_EQ(lion.states().front().first_moment.bytes().count, 5000);
  EXPECT_FALSE(lion.states().front().second_moment);
  EXPECT_FALSE(lion.states().front().second_scales);
  EXPECT_EQ(lion.code_tables().size(), 1u);
}

// A mean of squares for each row and each column; of a vector for each element.
TEST(Adafactor, KeepsRowsAndColumnsOfAMatrix) {
  Session s;
  Tensors parameters;
  for (const Dims& sizes : {Dims{600, 400}, Dims{600}}) {
    parameters.push_back(empty(s, sizes, {Dtype::bfloat16, Device::cuda}));
    parameters.back().set_requires_grad(true);
    parameters.back().set_grad(empty_like(s, parameters.back()));
  }
  ParameterOptimizer optimizer(parameters, {.rule = OptimizerRule::adafactor});
  optimizer.step(s);
  const auto& states = optimizer.states();
  EXPECT_EQ(states[0].first_moment.bytes().count, 600 * 4);
  EXPECT_EQ(states[0].second_moment.bytes().count, 400 * 4);
  EXPECT_EQ(states[1].first_moment.bytes().count, 600 * 4);
  EXPECT_FALSE(states[1].second_moment);
  EXPECT_EQ(states[1].scale.numel(), 1);
}

}  // namespace
}  // namespace shardscope::eager
