#include "sim/kernels/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/pytorch/engine/aten/complex.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/record/schedule_recorder.h"

namespace shardscope::eager {
namespace {

/// Tensors are 10 x 10 floats: 400 bytes.
class Fusion : public ::testing::Test {
 protected:
  Fusion() {
    s_.observe(recorder_);
    recorder_.begin_step("steady");
    recorder_.begin_phase(Phase::forward, 0);
  }
  Tensor make() { return allocate(s_, {Dtype::float32, Device::cuda}, {10, 10}); }
  Schedule with(KernelFusion fusion) {
    return with_kernels(recorder_.finish(), {.fusion = fusion});
  }
  static std::vector<std::string_view> launched(const Schedule& schedule) {
    std::vector<std::string_view> names;
    for (const HostAction& action : schedule.program.actions)
      if (action.kind == HostActionKind::launch)
        names.push_back(schedule.name(schedule.operations[action.subject]));
    return names;
  }
  static Bytes bytes_of_first(const Schedule& schedule) {
    return schedule.works[schedule.operations.front().work].bytes;
  }
  using Names = std::vector<std::string_view>;

  ScheduleRecorder recorder_;
  Session s_;
};

TEST_F(Fusion, ARunMovesWhatComesInAndWhatIsReadLater) {
  // neg reads x and writes a, relu reads a and writes b, which the product reads: 400 in, 400 out.
  const Tensor x = make();
  Tensor a = neg(s_, x);
  const Tensor b = relu(s_, a);
  a.reset();
  const Tensor c = mm(s_, b, x);
  const Schedule fused = with(KernelFusion::compiled);
  EXPECT_EQ(launched(fused), (Names{"aten.neg.default", "aten.mm.default"}));
  EXPECT_EQ(bytes_of_first(fused), 800_B);
}

TEST_F(Fusion, ACompilerLeavesComplexNumbersToThemselves) {
  const Tensor x = make();
  const Tensor a = neg(s_, x);
  const Tensor b = mul_complex(s_, a, x);
  const Tensor c = relu(s_, b);
  EXPECT_EQ(launched(with(KernelFusion::compiled)),
            (Names{"aten.neg.default", "aten.mul.complex", "aten.relu.default"}));
}

TEST_F(Fusion, XlaFusesComplexNumbersToo) {
  const Tensor x = make();
  const Tensor a = neg(s_, x);
  const Tensor b = mul_complex(s_, a, x);
  const Tensor c = relu(s_, b);
  EXPECT_EQ(launched(with(KernelFusion::xla)), (Names{"aten.neg.default"}));
}

TEST_F(Fusion, WhatIsReadLaterIsWrittenThoughTheRunReadsItToo) {
  const Tensor x = make();
  const Tensor a = neg(s_, x);
  const Tensor b = relu(s_, a);
  const Tensor c = mm(s_, b, a);
  EXPECT_EQ(bytes_of_first(with(KernelFusion::compiled)), 1200_B);
}

TEST_F(Fusion, AnInputIsReadOnce) {
  const Tensor x = make();
  Tensor a = neg(s_, x);
  const Tensor b = add(s_, a, x);
  a.reset();
  const Tensor c = mm(s_, b, b);
  EXPECT_EQ(bytes_of_first(with(KernelFusion::compiled)), 800_B);
}

TEST_F(Fusion, AWaitEndsARun) {
  const StreamId side = s_.new_stream({"side", Stream::reduce});
  const Tensor x = make();
  const Tensor a = neg(s_, x);
  s_.wait_stream(s_.stream, side);
  const Tensor b = neg(s_, a);
  EXPECT_EQ(launched(with(KernelFusion::compiled)).size(), 2U);
}

TEST_F(Fusion, ByHandASoftmaxEndsItsRun) {
  const Tensor x = make();
  const Tensor a = mul(s_, x, 2.0);
  const Tensor b = softmax(s_, a, -1);
  const Tensor c = neg(s_, b);
  EXPECT_EQ(launched(with(KernelFusion::by_hand)), (Names{"aten.mul.Tensor", "aten.neg.default"}));
}

TEST_F(Fusion, OfTheLossAloneNothingElseChanges) {
  const Tensor x = make();
  const Tensor a = neg(s_, x);
  const Tensor b = relu(s_, a);
  EXPECT_EQ(launched(with(KernelFusion::loss)).size(), 2U);
}

TEST_F(Fusion, CompiledViewsCostTheHostNothing) {
  const Tensor x = make();
  const Tensor a = view(s_, x, {100});
  const Schedule fused = with(KernelFusion::compiled);
  EXPECT_TRUE(std::ranges::none_of(fused.program.actions, [](const HostAction& action) {
    return action.kind == HostActionKind::dispatch;
  }));
}

TEST_F(Fusion, AttentionMayBeAnotherLibrarys) {
  Schedule schedule;
  schedule.works.push_back({.kind = WorkKind::attention_forward});
  schedule.works.back().attention.library = AttentionLibrary::flash;
  schedule.works.push_back({.kind = WorkKind::matmul});
  const Schedule chosen = with_kernels(schedule, {.attention = AttentionLibrary::triton});
  EXPECT_EQ(chosen.works[0].attention.library, AttentionLibrary::triton);
  EXPECT_EQ(chosen.works[1].attention.library, AttentionLibrary::none);
}

}  // namespace
}  // namespace shardscope::eager
