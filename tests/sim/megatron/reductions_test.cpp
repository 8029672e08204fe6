// Collectives of stacks that shard optimizer states otherwise than DeepSpeed.
#include "sim/megatron/reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::testing {
namespace {

/// A step that reduces 800 elements among 8 ranks and gathers as many.
Schedule zero_step() {
  Schedule schedule;
  schedule.groups.push_back({.name = "shard", .ranks = {0, 1, 2, 3, 4, 5, 6, 7}});
  schedule.collectives = {{.group = GroupId{0}, .elements_in = 800, .elements_out = 100},
                          {.group = GroupId{0}, .elements_in = 100, .elements_out = 800}};
  schedule.operations = {
      {.kind = OperationKind::reduce_scatter, .phase = Phase::backward, .detail = 0},
      {.kind = OperationKind::all_gather, .phase = Phase::optimizer, .detail = 1}};
  schedule.program.actions = {{.kind = HostActionKind::launch, .subject = 0},
                              {.kind = HostActionKind::launch, .subject = 1},
                              {.kind = HostActionKind::dispatch}};
  schedule.steps = {{.label = "steady", .operations = {0, 2}, .actions = {0, 3}}};
  return schedule;
}

const Collective& collective_of(const Schedule& schedule, std::size_t operation) {
  return schedule.collectives[schedule.operations[operation].detail];
}

std::size_t ranks_of(const Schedule& schedule, std::size_t operation) {
  return schedule.groups[collective_of(schedule, operation).group.value].ranks.size();
}

TEST(PublishedCollectives, ReductionsReachAllRanksAndGathersStay) {
  Schedule schedule = zero_step();
  reduce_over(schedule, 32);
  EXPECT_EQ(schedule.operations[0].kind, OperationKind::all_reduce);
  EXPECT_EQ(ranks_of(schedule, 0), 32u);
  EXPECT_EQ(collective_of(schedule, 0).elements_in, 800);
  EXPECT_EQ(schedule.operations[1].kind, OperationKind::all_gather);
  EXPECT_EQ(ranks_of(schedule, 1), 8u);
}

TEST(PublishedCollectives, EveryOwnerSendsItsPartToAllRanks) {
  Schedule schedule = zero_step();
  broadcast_by_owner(schedule, 8, 32);
  EXPECT_EQ(schedule.operations[1].kind, OperationKind::broadcast);
  EXPECT_EQ(collective_of(schedule, 1).elements_in, 100);  // 800 by 8
  EXPECT_EQ(ranks_of(schedule, 1), 32u);
  // One reduction, eight broadcasts, one dispatch.
  EXPECT_EQ(schedule.program.actions.size(), 10u);
  EXPECT_EQ(schedule.steps.back().actions.end, 10u);
}

}  // namespace
}  // namespace shardscope::testing
