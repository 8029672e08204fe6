#include "backend/profile/launch_links.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace shardscope {
namespace {

constexpr OperationId first{0}, second{1}, third{2};

DeviceRecord caused_by(std::uint32_t correlation, std::uint64_t graph_node = 0) {
  return {.graph_node = graph_node, .correlation = correlation, .operation = {}};
}

TEST(ExternalId, HoldsStepAndOperation) {
  // The first operation and a late step: neither is lost, and neither is 0.
  const LaunchPlace place{.operation = first, .step = 2'000'000'000};
  EXPECT_EQ(external_id_of(place), 2'000'000'000ull * 4'294'967'296ull + 1);
  EXPECT_EQ(place_of(external_id_of(place)), place);
}

TEST(ExternalId, HoldsAStepWithoutAnOperation) {
  const LaunchPlace place{.operation = {}, .step = 3};
  EXPECT_EQ(place_of(external_id_of(place)), place);
  EXPECT_FALSE(place_of(external_id_of(place)).operation);
}

TEST(LinkRecords, FindsTheOperationOfTheCallThatCausedARecord) {
  std::array records{caused_by(9), caused_by(4)};
  link_records(records, {{4, external_id_of({second, 1})}, {9, external_id_of({third, 2})}}, {});
  EXPECT_EQ(records[0].operation, third);
  EXPECT_EQ(records[0].step, 2);
  EXPECT_EQ(records[1].operation, second);
  EXPECT_EQ(records[1].step, 1);
}

TEST(LinkRecords, LeavesWhatNobodyPushedAnIdForWithoutAnOperation) {
  std::array records{caused_by(5), caused_by(0)};
  link_records(records, {{4, external_id_of({second, 1})}, {6, external_id_of({second, 1})}}, {});
  EXPECT_FALSE(records[0].operation);
  EXPECT_EQ(records[0].step, 0);
  EXPECT_FALSE(records[1].operation);
}

TEST(LinkRecords, FindsTheOperationOfAGraphsNodeAndTheStepOfItsLaunch) {
  GraphNodes nodes;
  nodes.created(10, first);
  nodes.created(11, second);
  nodes.cloned(10, 20);
  nodes.cloned(11, 21);
  nodes.cloned(12, 22);  // captured outside of any operation
  // Two replays, by the calls 1 and 2, of steps 5 and 6.
  std::array records{caused_by(1, 20), caused_by(1, 21), caused_by(2, 20), caused_by(2, 22)};
  link_records(records, {{1, external_id_of({{}, 5})}, {2, external_id_of({{}, 6})}}, nodes);
  EXPECT_EQ(records[0].operation, first);
  EXPECT_EQ(records[0].step, 5);
  EXPECT_EQ(records[1].operation, second);
  EXPECT_EQ(records[2].operation, first);
  EXPECT_EQ(records[2].step, 6);
  EXPECT_FALSE(records[3].operation);
  EXPECT_EQ(records[3].step, 6);
}

TEST(LinkByTime, FindsTheOperationDuringWhichAnotherThreadLaunched) {
  std::array records{caused_by(7), caused_by(8), caused_by(9), caused_by(6)};
  records[3].step = 1;  // tied already
  const std::array stays{Stay{{first, 4}, 100, 200}, Stay{{second, 4}, 250, 300}};
  link_by_time(records, {{6, 150}, {9, 400}, {8, 225}, {7, 250}}, stays);
  EXPECT_EQ(records[0].operation, second);
  EXPECT_EQ(records[0].step, 4);
  EXPECT_FALSE(records[1].operation) << "between two operations";
  EXPECT_FALSE(records[2].operation) << "after the last one";
  EXPECT_FALSE(records[3].operation) << "an id goes before";
}

}  // namespace
}  // namespace shardscope
