#include "sim/kernels/compiled_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/runtimes/record/schedule_recorder.h"

namespace shardscope::eager {
namespace {

using Names = std::vector<std::string>;

/// Tensors are 10 x 10 floats: 400 bytes. Operators are in no module, so that they are the graph of
/// the loss.
class CompiledMemory : public ::testing::Test {
 protected:
  CompiledMemory() { s_.observe(recorder_); }
  Tensor make(bool trained) {
    Tensor tensor = allocate(s_, {Dtype::float32, Device::cuda}, {10, 10});
    tensor.set_requires_grad(trained);
    return tensor;
  }
  void begin_forward() {
    recorder_.begin_step("steady");
    recorder_.begin_phase(Phase::forward, 0);
  }
  void run_backward(Tensor output) {
    const Tensor loss = sum(s_, output);
    output.reset();
    recorder_.begin_phase(Phase::backward, 0);
    backward(s_, loss);
  }
  Schedule eager() { return recorder_.finish(); }

  /// Values of 400 bytes that the step has made and that are there before backward, by the operator
  /// that made them.
  static Names held(const Schedule& schedule) {
    Names names;
    std::vector<std::uint32_t> live;
    const HostProgram& program = schedule.program;
    for (std::size_t i = schedule.steps.front().actions.begin; i < program.actions.size(); ++i) {
      const HostAction& action = program.actions[i];
      if (issues_operation(action.kind) &&
          schedule.operations[action.subject].phase == Phase::backward)
        break;
      if (action.kind == HostActionKind::allocate) live.push_back(action.subject);
      if (action.kind == HostActionKind::free) std::erase(live, action.subject);
    }
    for (const std::uint32_t buffer : live)
      if (schedule.buffers[buffer].bytes == 400_B)
        names.emplace_back(schedule.names[schedule.buffers[buffer].name]);
    std::ranges::sort(names);
    return names;
  }
  static std::size_t allocations(const Schedule& schedule) {
    return static_cast<std::size_t>(
        std::ranges::count(schedule.program.actions, HostActionKind::allocate, &HostAction::kind));
  }
  static bool frees_what_it_allocates(const Schedule& schedule) {
    std::vector<int> count(schedule.buffers.size());
    for (const HostAction& action : schedule.program.actions) {
      if (action.kind == HostActionKind::allocate && ++count[action.subject] != 1) return false;
      if (action.kind == HostActionKind::free && --count[action.subject] != 0) return false;
    }
    return true;
  }

  ScheduleRecorder recorder_;
  Session s_;
};

TEST_F(CompiledMemory, WhatStaysInOneKernelIsNeverThere) {
  const Tensor x = make(false);
  begin_forward();
  Tensor a = neg(s_, x);
  Tensor b = relu(s_, a);
  a.reset();
  const Tensor c = mm(s_, b, x);
  b.reset();
  const Schedule schedule = eager();
  const Schedule compiled = with_compiled_memory(schedule, CompileScope::blocks_and_loss);
  EXPECT_EQ(allocations(schedule), allocations(compiled) + 1);  // a
  EXPECT_EQ(std::ranges::count(compiled.buffers, Bytes{}, &Buffer::bytes), 1);
}

TEST_F(CompiledMemory, WhatIsNotCompiledStays) {
  const Tensor x = make(false);
  begin_forward();
  Tensor a = neg(s_, x);
  const Tensor b = relu(s_, a);
  a.reset();
  const Schedule schedule = eager();
  EXPECT_EQ(allocations(with_compiled_memory(schedule, CompileScope::blocks)),
            allocations(schedule));
  EXPECT_EQ(allocations(with_compiled_memory(schedule, CompileScope::none)), allocations(schedule));
}

TEST_F(CompiledMemory, AnActivationIsRecomputedFromTheProductThatItReads) {
  // Eager PyTorch keeps gate for silu, silu(gate) and up for mul, and their product for mm.
  const Tensor x = make(true), w1 = make(true), w2 = make(true), w3 = make(true);
  begin_forward();
  Tensor gate = mm(s_, x, w1);
  Tensor up = mm(s_, x, w2);
  Tensor activated = silu(s_, gate);
  gate.reset();
  Tensor product = mul(s_, activated, up);
  activated.reset();
  up.reset();
  Tensor output = mm(s_, product, w3);
  product.reset();
  run_backward(std::move(output));
  const Schedule schedule = eager();
  const Schedule compiled = with_compiled_memory(schedule, CompileScope::blocks_and_loss);
  EXPECT_EQ(held(schedule),
            (Names{"aten.mm.default", "aten.mm.default", "aten.mul.Tensor", "aten.silu.default"}));
  EXPECT_EQ(held(compiled), (Names{"aten.mm.default", "aten.mm.default", "aten.mul.Tensor"}));
  EXPECT_TRUE(frees_what_it_allocates(compiled));
}

TEST_F(CompiledMemory, WhatASelectiveCheckpointKeepsAndNobodyReadsGoes) {
  // y = x + w2(silu(w1(x))), of which a checkpoint keeps both products. The backward reads the
  // first one again; the second is read by the sum alone, which is not run again.
  const Tensor x = make(true), w1 = make(true), w2 = make(true);
  const CheckpointOptions options{.preserve_rng_state = false, .saves = [](const Operator& op) {
                                    return op.name == "aten.mm.default";
                                  }};
  const auto block = [&](Session& s, const Arguments& arguments) -> Tensors {
    Tensor first = mm(s, arguments[0], w1);
    Tensor activated = silu(s, first);
    first.reset();
    Tensor second = mm(s, activated, w2);
    activated.reset();
    return {add(s, arguments[0], std::move(second))};
  };
  begin_forward();
  Tensor output = checkpoint(s_, options, block, {x})[0];
  run_backward(std::move(output));
  const Schedule schedule = eager();
  const Schedule compiled = with_compiled_memory(schedule, CompileScope::blocks_and_loss);
  EXPECT_EQ(held(schedule), (Names{"aten.mm.default", "aten.mm.default"}));
  EXPECT_EQ(held(compiled), (Names{"aten.mm.default"}));
  EXPECT_TRUE(frees_what_it_allocates(compiled));
}

TEST_F(CompiledMemory, AWideCopyIsMadeAgainFromTheNarrowOne) {
  // Eager PyTorch keeps the wide copy for pow's gradient, 400 bytes; compiled code the product that
  // it is a copy of, 200 bytes, which eager PyTorch lets go.
  const Like narrow{Dtype::bfloat16, Device::cuda};
  const Tensor x = allocate(s_, narrow, {10, 10}), w = allocate(s_, narrow, {10, 10});
  w.set_requires_grad(true);
  begin_forward();
  Tensor product = mm(s_, x, w);
  Tensor wide = to(s_, product, Dtype::float32);
  product.reset();
  Tensor squared = pow(s_, wide, 2);
  wide.reset();
  run_backward(std::move(squared));
  const Schedule schedule = eager();
  const Schedule compiled = with_compiled_memory(schedule, CompileScope::blocks_and_loss);
  EXPECT_EQ(held(schedule), (Names{"aten._to_copy.default"}));
  EXPECT_EQ(held(compiled), Names{});
  const auto freed = [](const Schedule& of) {  // of the product, in place of actions
    std::size_t place = 0;
    for (std::size_t i = 0; i < of.program.actions.size(); ++i)
      if (of.program.actions[i].kind == HostActionKind::free &&
          of.names[of.buffers[of.program.actions[i].subject].name] == "aten.mm.default" &&
          of.buffers[of.program.actions[i].subject].bytes == 200_B)
        place = std::max(place, i);
    return of.program.actions.size() - place;
  };
  EXPECT_LT(freed(compiled), freed(schedule));
  EXPECT_TRUE(frees_what_it_allocates(compiled));
}

}  // namespace
}  // namespace shardscope::eager
