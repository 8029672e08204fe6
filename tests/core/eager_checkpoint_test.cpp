// Recorded: torch 2.15 on the CPU, the same block, by the classes of
// ../shared/data/pytorch/operators/record.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/selective.h"
#include "tests/core/operator_log.h"

namespace shardscope::eager {
namespace {

using Names = std::vector<std::string>;

/// A block of h + linear(tanh(linear(h))), twice.
struct EagerCheckpoint : testing::Test {
  Session s{{.device = Device::cpu, .watched = true}};
  OperatorLog log;
  Tensor x = leaf(s, {2, 3, 4});
  Tensor in = leaf(s, {8, 4});
  Tensor out = leaf(s, {4, 8});

  Tensors block(const Arguments& arguments) {
    Tensor h = tanh(s, linear(s, arguments[0], in));
    h = linear(s, std::move(h), out);
    return {add(s, arguments[0], h)};
  }
  Tensor loss(const CheckpointOptions& options) {
    const auto run = [this](Session&, const Arguments& arguments) { return block(arguments); };
    Tensor h = mul(s, x, 2);
    h = checkpoint(s, options, run, {std::move(h)})[0];
    return sum(s, std::move(h));
  }
  int count(std::string_view name) const {
    const Names names = log.names();
    return static_cast<int>(std::count(names.begin(), names.end(), name));
  }
};

TEST_F(EagerCheckpoint, KeepsNoActivationAndStopsWhereBackwardHasAllItNeeds) {
  s.observe(log);
  const Tensor l = loss({});
  EXPECT_EQ(count("tanh.default"), 1);
  log.clear();
  backward(s, l);
  // recorded: of the two products of the block only the first is computed again, and no sum.
  EXPECT_EQ(count("tanh.default"), 1);
  EXPECT_EQ(count("mm.default"), 1 + 4);
  EXPECT_EQ(count("add.Tensor"), 1);  // of gradients
}

TEST_F(EagerCheckpoint, WithoutEarlyStopTheWholeBlockRunsAgain) {
  const Tensor l = loss({.early_stop = false});
  s.observe(log);
  backward(s, l);
  EXPECT_EQ(count("mm.default"), 2 + 4);
  EXPECT_EQ(count("add.Tensor"), 2);
}

TEST_F(EagerCheckpoint, ReentrantRunsItsOwnBackward) {
  const Tensor l = loss({.reentrant = true});
  EXPECT_EQ(l.grad_fn()->next_edges()[0].node->name(), "CheckpointFunctionBackward");
  s.observe(log);
  backward(s, l);
  EXPECT_EQ(count("mm.default"), 2 + 4);
  EXPECT_TRUE(in.grad().defined());
  EXPECT_TRUE(x.grad().defined());
}

TEST_F(EagerCheckpoint, SelectiveGivesBackWhatItKept) {
  CheckpointOptions options;
  options.saves = [](const Operator& op) { return op.name == "aten.mm.default"; };
  s.observe(log);
  const Tensor l = loss(options);
  log.clear();
  backward(s, l);
  // recorded: no product is computed again, the tanh is.
  EXPECT_EQ(count("mm.default"), 4);
  EXPECT_EQ(count("tanh.default"), 1);
}

// torchao's float8 makes aten.mm of casts and aten._scaled_mm: create_selective_checkpoint_contexts
// sees the one aten.mm (torch 2.15 and torchao 0.18: as much is allocated as in bfloat16).
TEST_F(EagerCheckpoint, SelectiveKeepsWhatASubclassMakesOfOthers) {
  static constexpr Operator mm{"aten.mm.default", OperatorKind::matmul};
  const NoGrad off(s);
  for (const bool saves : {true, false}) {
    SelectiveCache cache([&](const Operator& op) { return saves && op.name == mm.name; });
    int runs = 0;
    const auto product = [&] { return ++runs, tanh(s, x); };
    Tensor made, again;
    {
      const Scoped<SelectiveCache*> forward(s.selective_forward, &cache);
      made = as_one_operator(s, mm, product);
    }
    {
      const Scoped<SelectiveCache*> replay(s.selective_replay, &cache);
      again = as_one_operator(s, mm, product);
    }
    EXPECT_EQ(runs, saves ? 1 : 2);
    EXPECT_EQ(again.storage() == made.storage(), saves);
  }
}

TEST_F(EagerCheckpoint, WithoutGradNothingIsSaved) {
  const NoGrad off(s);
  EXPECT_FALSE(loss({}).requires_grad());
}

TEST_F(EagerCheckpoint, AnotherNumberOfSavedTensorsIsRefused) {
  int runs = 0;
  const auto run = [&](Session& in_session, const Arguments& arguments) -> Tensors {
    Tensor h = tanh(in_session, arguments[0]);
    if (runs++ == 0) h = tanh(in_session, std::move(h));
    return {h};
  };
  const Tensor l = sum(s, checkpoint(s, {}, run, {mul(s, x, 2)})[0]);
  EXPECT_THROW(backward(s, l), Error);
}

}  // namespace
}  // namespace shardscope::eager
