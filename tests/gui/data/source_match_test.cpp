#include "gui/data/source_match.h"

#include <gtest/gtest.h>

namespace shardscope::gui {
namespace {

using Kind = MemorySource::Kind;

MemorySource rank(std::int64_t number, SideKind side = SideKind::profiled) {
  return {.side = side, .kind = Kind::rank, .rank = number, .label = "rank"};
}

MemorySource events(std::int64_t rank, MemoryDevice on, std::int64_t place) {
  return {.kind = Kind::profiler_events,
          .index = static_cast<std::size_t>(rank),
          .device = place,
          .rank = rank,
          .on = on,
          .label = "events"};
}

MemorySource snapshot(std::size_t file, std::int64_t device) {
  return {.kind = Kind::snapshot,
          .index = file,
          .device = device,
          .on = MemoryDevice{.type = gpu_device_type, .id = device},
          .label = "snapshot"};
}

constexpr MemoryDevice host{.type = host_device_type, .id = 0};
constexpr MemoryDevice gpu(std::int64_t id) { return {.type = gpu_device_type, .id = id}; }

TEST(SourceMatch, IsByRankAndNotByPlaceInTheList) {
  EXPECT_EQ(matching_source({rank(1), rank(3)}, rank(3)), rank(3));
  EXPECT_EQ(matching_source({rank(1), rank(3)}, rank(1)), rank(1));
}

TEST(SourceMatch, IsNoneWhereNothingIsOfThatRank) {
  EXPECT_EQ(matching_source({rank(1)}, events(0, gpu(0), 1)), std::nullopt);
  EXPECT_EQ(matching_source({rank(0), rank(1)}, rank(2)), std::nullopt);
  EXPECT_EQ(matching_source({}, rank(0)), std::nullopt);
}

TEST(SourceMatch, IsByDeviceWithinARank) {
  const std::vector<MemorySource> sources{events(0, host, 0), events(0, gpu(0), 1)};
  EXPECT_EQ(matching_source(sources, events(0, host, 0)), sources[0]);
  EXPECT_EQ(matching_source(sources, events(0, gpu(0), 0)), sources[1]);
  EXPECT_EQ(matching_source({sources[0]}, events(0, gpu(0), 0)), std::nullopt);
}

TEST(SourceMatch, OfAProcessThatSaysNoDeviceIsItsGpuBeforeItsHost) {
  const std::vector<MemorySource> sources{events(0, host, 0), events(0, gpu(0), 1)};
  EXPECT_EQ(matching_source(sources, rank(0)), sources[1]);
}

TEST(SourceMatch, OfSeveralFilesOfOneDeviceIsThatInTheSamePlace) {
  const std::vector<MemorySource> sources{snapshot(0, 0), snapshot(1, 0), snapshot(2, 1)};
  EXPECT_EQ(matching_source(sources, snapshot(1, 0)), sources[1]);
  EXPECT_EQ(matching_source(sources, snapshot(0, 1)), sources[2]);
}

TEST(SourceMatch, APredictionStandsForAllRanks) {
  const MemorySource prediction = rank(0, SideKind::predicted);
  EXPECT_EQ(matching_source({prediction}, rank(5)), prediction);
  EXPECT_EQ(matching_source({prediction}, snapshot(0, 3)), prediction);
  EXPECT_EQ(matching_source({rank(2), rank(3)}, prediction), rank(2));
}

}  // namespace
}  // namespace shardscope::gui
