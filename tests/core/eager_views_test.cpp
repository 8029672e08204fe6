#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/view_rules.h"
#include "core/pytorch/engine/views.h"
#include "tests/core/operator_log.h"

namespace shardscope::eager {
namespace {

using Names = std::vector<std::string>;

struct EagerViews : testing::Test {
  Session s{{.device = Device::cpu, .watched = true}};
  OperatorLog log;
  Tensor x = leaf(s, {2, 3, 4});

  void SetUp() override { s.observe(log); }
};

TEST(ViewRules, JoinsDimensionsThatLieTogether) {
  // (2, 3, 4) with strides (12, 4, 1): 2*3 = 6 rows of 4.
  EXPECT_EQ(view_strides({2, 3, 4}, {12, 4, 1}, {6, 4}), (Dims{4, 1}));
  // Transposed to (3, 2, 4), strides (4, 12, 1), rows do not follow each other.
  EXPECT_EQ(view_strides({3, 2, 4}, {4, 12, 1}, {6, 4}), std::nullopt);
  EXPECT_EQ(view_strides({3, 2, 4}, {4, 12, 1}, {3, 2, 2, 2}), (Dims{4, 12, 2, 1}));
}

TEST(ViewRules, SlicesAsPython) {
  EXPECT_EQ(slice_range(5, -2, to_the_end, 1).start, 3);
  EXPECT_EQ(slice_range(5, -2, to_the_end, 1).length, 2);
  EXPECT_EQ(slice_range(5, 0, -1, 2).length, 2);  // 0, 2
  EXPECT_EQ(slice_range(5, 4, 2, 1).length, 0);
}

TEST_F(EagerViews, ShareTheStorageUntilTheLastOneGoes) {
  Tensor copy = clone(s, x);
  const Tensor part = select(s, copy, 0, 1);
  EXPECT_EQ(part.storage(), copy.storage());
  EXPECT_EQ(part->layout.offset, 12);
  copy.reset();
  EXPECT_EQ(log.lives()[1].freed, -1);
}

TEST_F(EagerViews, ReshapeCopiesWhatCannotBeViewed) {
  reshape(s, transpose(s, x, 0, 1), {3, 8});
  EXPECT_EQ(log.names(), (Names{"transpose.int", "clone.default", "_unsafe_view.default"}));
}

TEST_F(EagerViews, ViewRefusesWhatReshapeCopies) {
  EXPECT_THROW(view(s, transpose(s, x, 0, 1), {3, 8}), Error);
  EXPECT_THROW(view(s, x, {5, 5}), Error);
}

TEST_F(EagerViews, MoreDimensionsThanAreModelledAreRefused) {
  EXPECT_THROW((Dims{1, 1, 1, 1, 1, 1, 1, 1}), Error);
}

TEST_F(EagerViews, ALinearWithBiasFlattensFirst) {
  // F.linear of (2, 3, 4): torch 2.15 views, then transposes the weight; without a bias the other
  // way round (matmul).
  const Tensor weight = leaf(s, {8, 4}), bias = leaf(s, {8});
  linear(s, x, weight, bias);
  EXPECT_EQ(log.names(),
            (Names{"view.default", "t.default", "addmm.default", "_unsafe_view.default"}));
  log.clear();
  linear(s, x, weight);
  EXPECT_EQ(log.names(),
            (Names{"t.default", "view.default", "mm.default", "_unsafe_view.default"}));
}

TEST_F(EagerViews, ALinearOfWhatIsNotContiguousCopiesAndAdds) {
  const Tensor weight = leaf(s, {8, 4}), bias = leaf(s, {8});
  linear(s, transpose(s, x, 0, 1), weight, bias);
  EXPECT_EQ(log.names(),
            (Names{"transpose.int", "t.default", "clone.default", "_unsafe_view.default",
                   "mm.default", "_unsafe_view.default", "add.Tensor"}));
}

TEST_F(EagerViews, AMatmulOfBatchesIsABmm) {
  matmul(s, x, transpose(s, x, 1, 2));
  EXPECT_EQ(log.names(), (Names{"transpose.int", "expand.default", "view.default", "expand.default",
                                "view.default", "bmm.default", "_unsafe_view.default"}));
}

}  // namespace
}  // namespace shardscope::eager
