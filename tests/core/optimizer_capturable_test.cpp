#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "tests/core/operator_log.h"

namespace shardscope::eager {
namespace {

struct Capturable : testing::Test {
  Session s{{.device = Device::cpu}};
  OperatorLog log;
  Tensor weight = leaf(s, {4, 4});

  void SetUp() override { weight.set_grad(zeros_like(s, weight)); }
};

TEST_F(Capturable, CountsStepsOnTheDeviceAndReadsNothingBack) {
  // torch/optim/adam.py, _multi_tensor_adam of torch 2.15, its branch `if capturable`.
  ParameterOptimizer adam({weight}, {.weight_decay = false, .capturable = true});
  adam.step(s);
  s.observe(log);
  adam.step(s);
  std::vector<std::string> names = log.names();
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("_foreach"); });
  EXPECT_THAT(names,
              testing::ElementsAre(
                  "_foreach_add_.Scalar", "_foreach_lerp_.Scalar", "_foreach_mul_.Scalar",
                  "_foreach_addcmul_.Scalar", "_foreach_pow.ScalarAndTensor",
                  "_foreach_pow.ScalarAndTensor", "_foreach_sub_.Scalar", "_foreach_sub_.Scalar",
                  "_foreach_neg_.default", "_foreach_div_.Scalar", "_foreach_reciprocal_.default",
                  "_foreach_sqrt_.default", "_foreach_sqrt.default", "_foreach_div_.List",
                  "_foreach_add_.Scalar", "_foreach_div_.List", "_foreach_addcdiv_.Scalar"));
  EXPECT_THAT(log.names(), testing::Not(testing::Contains("_local_scalar_dense.default")));
}

// torch/optim/adamw.py of PyTorch 2.0: `denom = torch._foreach_add(exp_avg_sq_sqrt, eps)`.
TEST_F(Capturable, HadADenominatorOfItsOwnBeforePytorch21) {
  const auto additions = [&](bool apart) {
    ParameterOptimizer adam({weight}, {.denominator_apart = apart});
    OperatorLog own;
    s.observe(own);
    adam.step(s);
    const std::vector<std::string> names = own.names();
    return std::pair(std::ranges::count(names, "_foreach_add.Scalar"),
                     std::ranges::count(names, "_foreach_add_.Scalar"));
  };
  // Of epsilon alone: the steps, which are not capturable, lie on the host.
  EXPECT_EQ(additions(false), std::pair(0L, 1L));
  EXPECT_EQ(additions(true), std::pair(1L, 0L));
}

TEST_F(Capturable, IsRefusedForTheLoop) {
  ParameterOptimizer adam({weight},
                          {.implementation = OptimizerImplementation::loop, .capturable = true});
  EXPECT_THROW(adam.step(s), Error);
}

}  // namespace
}  // namespace shardscope::eager
