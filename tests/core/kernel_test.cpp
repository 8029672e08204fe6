#include "core/schedule/kernel.h"

#include <gtest/gtest.h>

#include "core/schedule/samples.h"

namespace shardscope {
namespace {

TEST(Kernel, HasTheKindOfItsStruct) {
  const Kernel kernel = LinearForwardKernel{.dtype = Dtype::bfloat16, .rows = 3};
  EXPECT_EQ(kernel.kind(), KernelKind::linear_forward);
  EXPECT_EQ(kernel.dtype(), Dtype::bfloat16);
  EXPECT_EQ(kernel.get<LinearForwardKernel>().rows, 3);
  EXPECT_EQ(kernel.get_if<LinearBackwardInputKernel>(), nullptr);
}

TEST(Kernel, IsEqualToThoseOfItsKindAlone) {
  const ActivationKernel shape{.rows = 4, .features = 8};
  const Kernel forward = GeluForwardKernel{shape};
  EXPECT_EQ(forward, Kernel(GeluForwardKernel{shape}));
  EXPECT_NE(forward, Kernel(GeluBackwardKernel{shape}));
  EXPECT_NE(forward, Kernel(GeluForwardKernel{{.rows = 4, .features = 9}}));
}

TEST(KernelDeathTest, TakenForAnotherKindEndsTheProgram) {
  const Kernel kernel = AddKernel{.elements = 1};
  EXPECT_DEATH(kernel.get<SgdKernel>(), "broken invariant: a kernel add is taken for a kernel sgd");
}

TEST(Kernel, OfNoElementTypeCountsAsFloat32) {
  EXPECT_EQ(Kernel(ClipCoefficientKernel{}).dtype(), Dtype::float32);
  EXPECT_EQ(Kernel(SumOfSquaresKernel{.gradient_dtype = Dtype::bfloat16}).dtype(), Dtype::float32);
}

TEST(Kernel, StandsByDefaultForEveryKind) {
  for (int i = 0; i < kernel_kind_count; ++i)
    EXPECT_EQ(default_kernel(static_cast<KernelKind>(i)).kind(), static_cast<KernelKind>(i));
}

TEST(Attention, IsWhatBothPassesShare) {
  const Kernel forward = AttentionForwardKernel{{.heads = 6}};
  const Kernel backward = AttentionBackwardKernel{{.heads = 7}};
  EXPECT_EQ(attention_of(forward)->heads, 6);
  EXPECT_EQ(attention_of(backward)->heads, 7);
  EXPECT_EQ(attention_of(RopeForwardKernel{{.heads = 6}}), nullptr);
}

TEST(CostKey, LeavesOutTheFactorsThatChangeNoCost) {
  EXPECT_EQ(cost_key(AdamWKernel{.has_clip = true,
                                 .elements = 9,
                                 .epsilon = 1,
                                 .beta1 = 0.5,
                                 .beta2 = 0.5,
                                 .weight_decay = 0.5}),
            Kernel(AdamWKernel{.has_clip = true, .elements = 9}));
  EXPECT_EQ(cost_key(AttentionForwardKernel{{.rows = 2, .scale = 0.125}}),
            Kernel(AttentionForwardKernel{{.rows = 2}}));
  EXPECT_EQ(cost_key(RopeTableKernel{.length = 2, .rope = {.theta = 500}}),
            Kernel(RopeTableKernel{.length = 2}));
}

}  // namespace
}  // namespace shardscope
