#include "core/pytorch/runtimes/common/process_group.h"

#include <gtest/gtest.h>

namespace shardscope::eager {
namespace {

// Ranks 0..7 as rows {0 1 2 3} and {4 5 6 7}: rank 5 stands in column 1 of row 1.
TEST(ProcessGroups, AMeshHasAGroupForEachDimension) {
  ProcessGroups groups(8, 5);
  const auto mesh = groups.mesh({2, 4});
  EXPECT_EQ(mesh[0]->ranks, (std::vector{1, 5}));
  EXPECT_EQ(mesh[0]->rank, 1);
  EXPECT_EQ(mesh[1]->ranks, (std::vector{4, 5, 6, 7}));
  EXPECT_EQ(mesh[1]->rank, 1);
}

TEST(ProcessGroups, ADimensionOfAllRanksIsTheWorldsOwnGroup) {
  ProcessGroups groups(4, 2);
  EXPECT_EQ(groups.mesh({4}).front(), &groups.world());
}

TEST(ProcessGroups, TwoGroupsOfTheSameRanksAreTwo) {
  ProcessGroups groups(4, 0);
  EXPECT_NE(&groups.add({0, 1}), &groups.add({0, 1}));
}

}  // namespace
}  // namespace shardscope::eager
