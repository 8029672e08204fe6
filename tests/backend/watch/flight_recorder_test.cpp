#include "backend/watch/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope {
namespace {

PlannedCollective planned(std::string_view unit) {
  return {.operation = "all_gather", .unit = unit, .bytes = {64}, .dtype = Dtype::float32};
}

TEST(FlightRecorder, NumbersCallsOfARankAndOfEachGroup) {
  FlightRecorder recorder;
  const std::size_t all = recorder.add_group({0, 1, 2, 3});
  const std::size_t pair = recorder.add_group({0, 2});
  recorder.complete(recorder.call({.operation = "all_reduce", .group = all}));
  recorder.complete(recorder.call({.operation = "barrier", .group = pair}));
  recorder.complete(recorder.call({.operation = "send", .group = all, .peer = 2}));
  recorder.start(recorder.call({.operation = "broadcast", .group = all}));
  const FlightSnapshot snapshot = recorder.snapshot();
  ASSERT_EQ(snapshot.entries.size(), 4U);
  EXPECT_EQ(snapshot.under_way()->sequence, 4U);
  EXPECT_EQ(snapshot.under_way()->call, 2U);  // a send is not the group's
  EXPECT_EQ(snapshot.last_completed()->operation, "send");
  EXPECT_EQ(snapshot.entries[1].group, "0,2");
}

TEST(FlightRecorder, AnnouncedOnesAreScheduledUntilTheyAreCalled) {
  FlightRecorder recorder;
  const std::size_t all = recorder.add_group({0, 1});
  recorder.announce(planned("h.0"), all);
  recorder.announce(planned("h.1"), all);
  recorder.start(recorder.call({.operation = "all_gather", .group = all, .bytes = {64}}));
  const FlightSnapshot snapshot = recorder.snapshot();
  ASSERT_EQ(snapshot.entries.size(), 2U);
  EXPECT_EQ(snapshot.entries[0].unit, "h.0");
  EXPECT_EQ(snapshot.entries[0].state, FlightState::started);
  EXPECT_EQ(snapshot.entries[1].unit, "h.1");
  EXPECT_EQ(snapshot.entries[1].state, FlightState::scheduled);
}

TEST(FlightRecorder, KeepsTheLastOnes) {
  FlightRecorder recorder(4);
  const std::size_t all = recorder.add_group({0, 1});
  for (int i = 0; i < 10; ++i)
    recorder.complete(recorder.call({.operation = "barrier", .group = all}));
  const FlightSnapshot snapshot = recorder.snapshot();
  ASSERT_EQ(snapshot.entries.size(), 4U);
  EXPECT_EQ(snapshot.entries.front().sequence, 7U);
  EXPECT_EQ(snapshot.groups[0].calls, 10U);
}

TEST(FlightRecorder, AnnouncementsFarAheadDoNotPushOutWhatWasNotCalled) {
  FlightRecorder recorder(2);
  const std::size_t all = recorder.add_group({0, 1});
  for (const char* unit : {"a", "b", "c"}) recorder.announce(planned(unit), all);
  for (const char* unit : {"a", "b", ""}) {
    const std::uint64_t sequence = recorder.call({.operation = "all_gather", .group = all});
    EXPECT_EQ(recorder.snapshot().entries.back().unit, sequence == 1 ? "b" : unit);
    recorder.complete(sequence);
  }
}

TEST(FlightRecorder, SaysSinceWhenTheOldestIsUnderWay) {
  FlightRecorder recorder;
  const std::size_t all = recorder.add_group({0, 1});
  EXPECT_FALSE(recorder.under_way_since());
  const std::uint64_t first = recorder.call({.operation = "barrier", .group = all});
  EXPECT_FALSE(recorder.under_way_since());  // queued behind something: no wait yet
  recorder.start(first);
  const Duration since = *recorder.under_way_since();
  const std::uint64_t second = recorder.call({.operation = "barrier", .group = all});
  recorder.start(second);
  EXPECT_EQ(*recorder.under_way_since(), since);
  recorder.complete(first);
  EXPECT_GE(recorder.under_way_since()->ns, since.ns);
  recorder.complete(second);
  EXPECT_FALSE(recorder.under_way_since());
}

TEST(FlightRecorder, GroupsAreNamedByTheirRanks) {
  FlightRecorder recorder;
  for (int i = 0; i < 2; ++i) recorder.add_group({0, 1, 2, 3});
  recorder.add_group({1, 3, 5, 7});
  recorder.add_group({0, 1, 3});
  const FlightSnapshot snapshot = recorder.snapshot();
  EXPECT_EQ(snapshot.groups[0].name, "0-3");
  EXPECT_EQ(snapshot.groups[1].name, "0-3#2");
  EXPECT_EQ(snapshot.groups[2].name, "1-7:2");
  EXPECT_EQ(snapshot.groups[3].name, "0,1,3");
}

TEST(RankRanges, JoinNeighbours) {
  EXPECT_EQ(rank_ranges({}), "");
  EXPECT_EQ(rank_ranges({5}), "5");
  EXPECT_EQ(rank_ranges({4, 5}), "4,5");
  EXPECT_EQ(rank_ranges({0, 1, 2, 3, 8}), "0-3,8");
}

}  // namespace
}  // namespace shardscope
