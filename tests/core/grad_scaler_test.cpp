// Recorded: torch 2.15's torch.amp.GradScaler("cpu") around AdamW of one parameter.
#include "core/pytorch/runtimes/common/grad_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "tests/core/operator_log.h"

namespace shardscope::eager {
namespace {

using Names = std::vector<std::string>;

struct GradScaling : testing::Test {
  Session s{{.device = Device::cpu, .watched = true}};
  OperatorLog log;
  Tensor weight = leaf(s, {4, 4});
  GradScaler scaler;

  void SetUp() override { s.observe(log); }
  ParameterOptimizer optimizer(OptimizerImplementation implementation) {
    return {{weight}, {.implementation = implementation}};
  }
  void scaled_backward() { backward(s, scaler.scale(s, sum(s, mul(s, weight, 2)))); }
  Names names_of(const std::function<void()>& run) {
    log.clear();
    run();
    return log.names();
  }
};

TEST_F(GradScaling, MakesItsScaleWithTheFirstLoss) {
  const Tensor loss = sum(s, weight);
  EXPECT_EQ(names_of([&] { scaler.scale(s, loss); }),
            (Names{"full.default", "full.default", "mul.Tensor"}));
  EXPECT_EQ(names_of([&] { scaler.scale(s, loss); }), Names{"mul.Tensor"});
}

TEST_F(GradScaling, UnscalesWithTheInverseMadeInFloat64) {
  ParameterOptimizer adamw = optimizer(OptimizerImplementation::foreach);
  scaled_backward();
  EXPECT_EQ(names_of([&] { scaler.unscale(s, adamw); }),
            (Names{"_to_copy.default", "reciprocal.default", "_to_copy.default", "full.default",
                   "_to_copy.default", "_to_copy.default",
                   "_amp_foreach_non_finite_check_and_unscale_.default"}));
}

TEST_F(GradScaling, ReadsTheResultBackBeforeTheStep) {
  ParameterOptimizer adamw = optimizer(OptimizerImplementation::foreach);
  scaled_backward();
  scaler.unscale(s, adamw);
  EXPECT_EQ(names_of([&] { scaler.step(s, adamw); }).front(), "_local_scalar_dense.default");
  EXPECT_EQ(names_of([&] { scaler.update(s); }), Names{"_amp_update_scale_.default"});
}

TEST_F(GradScaling, TellsAFusedOptimizerOnTheDevice) {
  ParameterOptimizer adamw = optimizer(OptimizerImplementation::fused);
  scaled_backward();
  const Names names = names_of([&] { scaler.step(s, adamw); });
  EXPECT_THAT(names, testing::Not(testing::Contains("_local_scalar_dense.default")));
  EXPECT_THAT(names, testing::IsSupersetOf({"_fused_adamw_.default", "_foreach_sub_.List"}));
  EXPECT_EQ(
      (Names{names.begin(), names.begin() + 7}),
      (Names{"full.default", "full.default", "_to_copy.default", "_to_copy.default",
             "_amp_foreach_non_finite_check_and_unscale_.default", "add.Tensor", "mul.Tensor"}));
}

TEST_F(GradScaling, RefusesAStepWithoutAScaledLoss) {
  ParameterOptimizer adamw = optimizer(OptimizerImplementation::foreach);
  EXPECT_THROW(scaler.step(s, adamw), Error);
}

}  // namespace
}  // namespace shardscope::eager
