// Muon's step beside what LLaMA-Factory's asked PyTorch's caching allocator for
// (tests/data/muon/README.md).
#include <gtest/gtest.h>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "sim/planner/memory_play.h"

namespace shardscope {
namespace {

struct StepMemory {
  std::int64_t states = 0;  ///< that the first step leaves
  std::int64_t above = 0;   ///< highest of the second step above what was there
};

StepMemory step_memory(Dtype dtype) {
  eager::SessionSettings session;
  session.compute_capability = 90;
  planner::MemoryPlay play({.session = session,
                            .device = eager::kernel_device(session.compute_capability),
                            .allocator = {},
                            .memory = Bytes{std::int64_t{80} << 30}});
  eager::Session& s = play.session();
  eager::Tensors parameters;
  for (const eager::Dims& sizes :
       {eager::Dims{3000, 512}, eager::Dims{512, 1024}, eager::Dims{2048, 512}, eager::Dims{512}}) {
    parameters.push_back(eager::empty(s, sizes, {dtype, eager::Device::cuda}));
    parameters.back().set_requires_grad(true);
  }
  eager::ParameterOptimizer optimizer(parameters, {.rule = eager::OptimizerRule::muon});
  optimizer.leave_to_adamw({parameters[0]});
  StepMemory result;
  for (int step = 0; step < 2; ++step) {
    for (const eager::Tensor& parameter : parameters)
      parameter.set_grad(eager::zeros_like(s, parameter));
    play.catch_up();
    play.begin();
    const std::int64_t before = play.allocator().statistics().allocated_bytes.current;
    optimizer.step(s);
    play.catch_up();
    const Gauge& allocated = play.allocator().statistics().allocated_bytes;
    if (step == 0) result.states = allocated.current - before;
    result.above = allocated.peak - before;
  }
  return result;
}

// Two moments of AdamW's 1,536,512 elements and one of Muon's 1,572,864.
TEST(Muon, KeepsOneMomentOfMatricesAndTwoOfTheRest) {
  EXPECT_EQ(step_memory(Dtype::float32).states, 4 * (2 * 1'536'512 + 1'572'864));
}

TEST(Muon, NeedsWhatWasRecordedInAStep) {
  EXPECT_EQ(step_memory(Dtype::float32).above, 89'890'816 - 43'606'016);
  EXPECT_EQ(step_memory(Dtype::bfloat16).above, 67'039'232 - 22'024'192);
}

}  // namespace
}  // namespace shardscope
