#include "traces/import/memory_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/traces/string_input.h"

namespace shardscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr auto activation = static_cast<std::size_t>(TimelineCategory::activation);
constexpr auto parameter = static_cast<std::size_t>(TimelineCategory::parameter);
constexpr auto temporary = static_cast<std::size_t>(TimelineCategory::temporary);

MemoryTimeline read(const std::string& text) {
  samples::StringInput input(text);
  return read_memory_timeline(input, "timeline.json");
}

TEST(MemoryTimeline, AddsUpRawRowsByCategory) {
  const auto timeline = read(
      "[[-1, 1, 100, 0], [1000, 2, 30, 3], [2000, 3, -30, 3], [2000, 3, 30, 4], [2500, 2, 7, 3],"
      " [3000, 4, -30, 4]]");
  const auto figures = timeline_figures(timeline);
  EXPECT_EQ(figures.peak, 137_B);  // 100 + 30 that became an activation + 7
  EXPECT_EQ(figures.peak_at, 4u);
  EXPECT_EQ(figures.peak_ns, 2500);
  EXPECT_EQ(figures.final, 107_B);
  EXPECT_EQ(figures.maximum[temporary], 30_B);
  EXPECT_EQ(figures.at_peak[temporary], 7_B);
  EXPECT_EQ(figures.at_peak[activation], 30_B);
  EXPECT_EQ(figures.at_end[parameter], 100_B);
  EXPECT_EQ(figures.first_ns, 1000);  // what was there before has no time
  EXPECT_EQ(figures.last_ns, 3000);
}

TEST(MemoryTimeline, TheFirstColumnOfPointsIsNoCategory) {
  const auto timeline =
      read("[[10, 20], [[0, 5, 0, 0, 0, 1, 0, 0, 0], [0, 5, 0, 0, 0, 9, 0, 0, 0]]]");
  EXPECT_EQ(timeline.points.count(), 2u);
  const auto figures = timeline_figures(timeline);
  EXPECT_EQ(figures.peak, 14_B);
  EXPECT_EQ(figures.peak_ns, 20'000);  // its times are microseconds
  EXPECT_EQ(figures.at_peak[parameter], 5_B);
  EXPECT_EQ(figures.at_peak[activation], 9_B);
}

TEST(MemoryTimeline, FourTimesAreNoRawRow) {
  const auto timeline = read("[[1, 2, 3, 4], [[0, 1], [0, 2], [0, 3], [0, 4]]]");
  EXPECT_EQ(timeline.rows.count(), 0u);
  EXPECT_EQ(timeline.points.times_us, (std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST(MemoryTimeline, LosesOneRowForOneThatIsBad) {
  const auto timeline = read(
      "[[1, 2, 3, 0], [1, 9, 3, 0], [1, 2, 3, 8], [1, 2, 3], [1, NaN, 3, 0], [1, 2, \"x\", 0],"
      " [2, 2, 4, 0]]");
  EXPECT_EQ(timeline.rows.count(), 2u);
  EXPECT_EQ(timeline.report.events_read, 7);
  EXPECT_THAT(timeline.report.skipped,
              ElementsAre(Pair("no known action", 1), Pair("no known category", 1),
                          Pair("no row of four numbers", 3)));
}

TEST(MemoryTimeline, KeepsWhatStoodBeforeTheEndOfACutFile) {
  const auto timeline = read("[[1, 2, 3, 0], [2, 2, 4, 0], [3, 2");
  EXPECT_EQ(timeline.rows.count(), 2u);
  EXPECT_THAT(timeline.report.guessed, ElementsAre("cut off after 34 bytes"));
}

TEST(MemoryTimeline, APointThatIsBadTakesItsTimeAlong) {
  const auto timeline = read("[[1, 2, 3], [[0, 10], [0], [0, 30]]]");
  EXPECT_EQ(timeline.points.times_us, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(timeline.points.bytes[3], 30);
}

TEST(MemoryTimeline, HoldsSumsAtTheEndsOfIntegers) {
  const auto figures =
      timeline_figures(read("[[1, 2, 9223372036854775807, 0], [2, 2, 9223372036854775807, 0]]"));
  EXPECT_EQ(figures.peak.count, INT64_MAX);
}

TEST(MemoryTimeline, RefusesOtherArrays) {
  for (const char* text : {"", "[]", "[[]]", "[[1, 2]]", "[1, 2, 3, 4]", "{\"a\": 1}"})
    EXPECT_THROW(read(text), Error) << text;
}

}  // namespace
}  // namespace shardscope
