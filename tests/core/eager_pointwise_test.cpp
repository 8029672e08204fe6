// Expected strides and dtypes: torch 2.15 on the CPU, the expression in each comment.
#include <gtest/gtest.h>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "tests/core/operator_log.h"

namespace shardscope::eager {
namespace {

struct EagerPointwise : testing::Test {
  Session s{{.device = Device::cpu}};
  OperatorLog log;  // outlives the tensors that it is told of
  Tensor a = make({2, 3, 4});

  Tensor make(const Dims& sizes, Dtype dtype = Dtype::float32) {
    return allocate(s, {dtype, Device::cpu}, sizes);
  }
};

TEST_F(EagerPointwise, KeepsTheStridesOfAPermutedTensor) {
  const Tensor permuted = permute(s, a, {2, 0, 1});
  EXPECT_EQ(mul(s, permuted, 2).strides(), (Dims{1, 12, 4}));               // ap * 2
  EXPECT_EQ(mul(s, permuted, make({3})).strides(), (Dims{1, 12, 4}));       // ap * v
  EXPECT_EQ(mul(s, make({3}), permuted).strides(), (Dims{1, 12, 4}));       // v * ap
  EXPECT_EQ(to(s, permuted, Dtype::bfloat16).strides(), (Dims{1, 12, 4}));  // ap.to(bfloat16)
}

TEST_F(EagerPointwise, TakesTheOrderOfTheFirstOperandThatTells) {
  const Tensor turned = transpose(s, a, 0, 1);
  EXPECT_EQ(add(s, turned, make({3, 2, 4})).strides(), (Dims{4, 12, 1}));  // at + c
  EXPECT_EQ(add(s, make({3, 2, 4}), turned).strides(), (Dims{8, 4, 1}));   // c + at
  EXPECT_EQ(add(s, t(s, make({4, 3})), make({4})).strides(), (Dims{1, 3}));
}

TEST_F(EagerPointwise, ABroadcastOperandIsWrittenOut) {
  const Tensor wide = expand(s, make({2, 1, 4}), {2, 3, 4});
  EXPECT_EQ(neg(s, wide).strides(), (Dims{12, 4, 1}));
  EXPECT_EQ(clone(s, wide).strides(), (Dims{12, 4, 1}));
  EXPECT_EQ(add(s, make({3, 1}), make({4})).sizes(), (Dims{3, 4}));
}

TEST_F(EagerPointwise, ADimensionOfOneDoesNotMove) {
  const Tensor one = transpose(s, make({2, 1, 4}), 0, 1);  // (1, 2, 4), strides (4, 4, 1)
  EXPECT_EQ(add(s, one, 1).strides(), (Dims{4, 4, 1}));    // o + 1
  EXPECT_EQ(add(s, one, one).strides(), (Dims{8, 4, 1}));  // o + o
}

TEST_F(EagerPointwise, EveryOtherElementIsPackedInItsOrder) {
  const Tensor sliced = slice(s, a, 2, 0, to_the_end, 2);
  EXPECT_EQ(add(s, sliced, 1).strides(), (Dims{6, 2, 1}));
  EXPECT_EQ(clone(s, transpose(s, sliced, 0, 2)).strides(), (Dims{1, 2, 6}));
}

TEST_F(EagerPointwise, WhereFollowsItsCondition) {
  // torch.where(contiguous > 0, transposed, 0.)
  const Tensor condition = compare(s, Comparison::gt, make({3, 2, 4}), 0);
  const Tensor chosen =
      where(s, condition, transpose(s, a, 0, 1), scalar_tensor(s, {Dtype::float32, Device::cpu}));
  EXPECT_EQ(chosen.strides(), (Dims{8, 4, 1}));
}

TEST_F(EagerPointwise, ANumberDoesNotWidenATensorOfItsKind) {
  EXPECT_EQ(result_type(make({2}, Dtype::bfloat16), 2.0), Dtype::bfloat16);
  EXPECT_EQ(result_type(make({2}, Dtype::int64), 2.0), Dtype::float32);
  EXPECT_EQ(result_type(make({2}, Dtype::boolean), 2), Dtype::int64);
  EXPECT_EQ(result_type(make({2}, Dtype::uint8), true), Dtype::uint8);
}

TEST_F(EagerPointwise, ATensorWithoutDimensionsCountsLessThanOneWith) {
  EXPECT_EQ(result_type(make({2}, Dtype::bfloat16), make({})), Dtype::bfloat16);
  EXPECT_EQ(result_type(make({2}, Dtype::int32), make({})), Dtype::float32);
  EXPECT_EQ(result_type(make({}, Dtype::int64), make({2}, Dtype::int32)), Dtype::int32);
}

TEST_F(EagerPointwise, PromotesAsTorchDoes) {
  EXPECT_EQ(promote(Dtype::bfloat16, Dtype::float16), Dtype::float32);
  EXPECT_EQ(promote(Dtype::int64, Dtype::float16), Dtype::float16);
  EXPECT_EQ(promote(Dtype::uint8, Dtype::int8), Dtype::int16);
  EXPECT_EQ(promote(Dtype::uint8, Dtype::int32), Dtype::int32);
  EXPECT_EQ(promote(Dtype::boolean, Dtype::uint8), Dtype::uint8);
  EXPECT_EQ(promote(Dtype::float32, Dtype::float64), Dtype::float64);
}

TEST_F(EagerPointwise, IntegersAreDividedInFloat32AndSummedInInt64) {
  EXPECT_EQ(div(s, make({2}, Dtype::int64), 2).dtype(), Dtype::float32);
  EXPECT_EQ(sum(s, make({2}, Dtype::boolean)).dtype(), Dtype::int64);
}

TEST_F(EagerPointwise, NestedCallsLetGoOfTemporariesAsPythonDoes) {
  // neg(neg(a) * 2): when the outer neg has run, the inner one is gone.
  s.observe(log);
  const Tensor result = neg(s, mul(s, neg(s, a), 2));
  EXPECT_EQ(log.rows(), (std::vector<std::string>{"neg.default 0 -> 1", "mul.Tensor 1 -> 2",
                                                  "neg.default 2 -> 3"}));
  EXPECT_EQ(log.lives()[1].freed, 2);
  EXPECT_EQ(log.lives()[2].freed, 3);
}

// Fake tensors: torch 2.15 under FakeTensorMode, of q = torch.empty(B, T, H * D).view(B, T, H, D)
// .transpose(1, 2) cut in its last dimension.
struct EagerFakeStrides : testing::Test {
  Session s{{.device = Device::cpu, .fake_tensors = true}};

  Tensor heads(std::int64_t tokens, std::int64_t size, std::int64_t kept, Dtype dtype) {
    const Tensor whole = allocate(s, {dtype, Device::cpu}, {2, tokens, 6, size});
    return slice(s, transpose(s, whole, 1, 2), 3, 0, kept);
  }
};

TEST_F(EagerFakeStrides, AnOutputLiesAsItsOperandDoes) {
  EXPECT_EQ(neg(s, heads(7, 16, 8, Dtype::float32)).strides(), (Dims{336, 8, 48, 1}));
  EXPECT_EQ(neg(s, heads(1, 16, 8, Dtype::float32)).strides(), (Dims{48, 8, 48, 1}));
}

TEST_F(EagerFakeStrides, HalvesAreComputedOnACopyInFloat32) {
  // x.to(float32) is (42, 1, 6, 1), which is channels last, and the result is written so.
  EXPECT_EQ(neg(s, heads(7, 4, 1, Dtype::float32)).strides(), (Dims{42, 1, 6, 1}));
  EXPECT_EQ(neg(s, heads(7, 4, 1, Dtype::bfloat16)).strides(), (Dims{42, 1, 6, 6}));
  EXPECT_EQ(to(s, heads(7, 4, 1, Dtype::bfloat16), Dtype::float16).strides(), (Dims{42, 1, 6, 1}));
}

TEST_F(EagerFakeStrides, EmptyLikeOfWhatIsContiguousButForOnesIsContiguous) {
  const Tensor whole = allocate(s, {Dtype::float32, Device::cpu}, {1, 1, 6, 8});
  const Tensor turned = transpose(s, whole, 1, 2);  // (1, 6, 1, 8), strides (48, 8, 48, 1)
  EXPECT_EQ(empty_like(s, turned).strides(), (Dims{48, 8, 8, 1}));
}

}  // namespace
}  // namespace shardscope::eager
