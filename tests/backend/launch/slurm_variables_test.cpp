#include "backend/rendezvous/slurm_variables.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

TEST(SlurmTasksOnNode, ReadsRepeats) {
  // Nodes 0 to 2 have 2 tasks each, node 3 has 1.
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 0), 2);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 2), 2);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 3), 1);
  EXPECT_EQ(slurm_tasks_on_node("8", 0), 8);
}

TEST(SlurmTasksOnNode, KnowsNothingOfOthers) {
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 4), std::nullopt);
  EXPECT_EQ(slurm_tasks_on_node("", 0), std::nullopt);
  EXPECT_EQ(slurm_tasks_on_node("2(x", 0), std::nullopt);
  EXPECT_EQ(slurm_tasks_on_node("two", 0), std::nullopt);
}

TEST(SlurmFirstHost, ReadsListsAndRanges) {
  EXPECT_EQ(slurm_first_host("gpu[03-05,9],login"), "gpu03");
  EXPECT_EQ(slurm_first_host("gpu[7]"), "gpu7");
  EXPECT_EQ(slurm_first_host("a,b"), "a");
  EXPECT_EQ(slurm_first_host("alone"), "alone");
}

TEST(SlurmFirstHost, KnowsNothingOfOthers) {
  EXPECT_EQ(slurm_first_host(""), std::nullopt);
  EXPECT_EQ(slurm_first_host("gpu["), std::nullopt);
  EXPECT_EQ(slurm_first_host("gpu[3"), std::nullopt);
}

}  // namespace
}  // namespace shardscope
