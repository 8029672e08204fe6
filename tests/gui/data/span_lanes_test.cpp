#include "gui/data/span_lanes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "gui/data/pixel_edges.h"

namespace shardscope::gui {
namespace {

SpanLane lane_of(const std::vector<LaneItem>& items) {
  SpanLane lane;
  for (const LaneItem& item : items) lane.add(item.begin, item.end, item.id, item.colour);
  lane.finish();
  return lane;
}

std::vector<LanePixel> pixels_of(const SpanLane& lane, const std::vector<std::int64_t>& edges) {
  LanePicture picture;
  draw_lane(lane, edges, picture);
  return picture.pixels;
}

constexpr auto forward = static_cast<std::uint8_t>(SpanColour::forward);
constexpr auto gather = static_cast<std::uint8_t>(SpanColour::gather);
constexpr LanePixel blank{};

TEST(SpanLanes, APixelShowsTheBusiestColourAndHowBusyItIs) {
  // In [0, 100): 10 of gather, 40 of forward: forward, half busy (127.5 rounds to 128 of 255).
  const SpanLane lane = lane_of({{.begin = 0, .end = 10, .colour = SpanColour::gather},
                                 {.begin = 20, .end = 40, .colour = SpanColour::forward},
                                 {.begin = 60, .end = 80, .colour = SpanColour::forward}});
  EXPECT_THAT(pixels_of(lane, {0, 100, 200}),
              ::testing::ElementsAre(LanePixel{forward, 128}, blank));
}

TEST(SpanLanes, AmongEqualsTheFirstColourIsShown) {
  const SpanLane lane = lane_of({{.begin = 0, .end = 30, .colour = SpanColour::forward},
                                 {.begin = 30, .end = 60, .colour = SpanColour::gather}});
  EXPECT_EQ(pixels_of(lane, {0, 60})[0].colour, gather);
}

TEST(SpanLanes, ASpanWithoutDurationIsSeen) {
  const SpanLane lane = lane_of({{.begin = 150, .end = 150, .colour = SpanColour::forward}});
  EXPECT_THAT(pixels_of(lane, {0, 100, 200, 300}),
              ::testing::ElementsAre(blank, LanePixel{forward, 0}, blank));
}

TEST(SpanLanes, AWideSpanFillsItsPixelsAndIsToldByItself) {
  const SpanLane lane = lane_of({{.begin = 50, .end = 650, .colour = SpanColour::forward}});
  LanePicture picture;
  draw_lane(lane, std::vector<std::int64_t>{0, 100, 200, 300, 400, 500, 600, 700, 800}, picture);
  EXPECT_THAT(picture.pixels,
              ::testing::ElementsAre(LanePixel{forward, 128}, LanePixel{forward, 255},
                                     LanePixel{forward, 255}, LanePixel{forward, 255},
                                     LanePixel{forward, 255}, LanePixel{forward, 255},
                                     LanePixel{forward, 128}, blank));
  ASSERT_EQ(picture.wide.size(), 1u);
  EXPECT_EQ(picture.wide[0].left, 0);
  EXPECT_EQ(picture.wide[0].right, 7);
}

TEST(SpanLanes, WherePixelsAreShorterThanANanosecondASpanStillHasItsWidth) {
  const SpanLane lane = lane_of({{.begin = 2, .end = 4, .colour = SpanColour::forward}});
  // Ten pixels over 5 ns.
  const auto edges = pixel_edges({.begin = 0, .end = 5}, 10, TimeMap());
  const auto pixels = pixels_of(lane, edges);
  for (int x = 0; x < 10; ++x)
    EXPECT_EQ(pixels[static_cast<std::size_t>(x)].colour != LanePixel::blank, x >= 4 && x < 8) << x;
}

TEST(SpanLanes, OverlapsAreLaidOneBelowTheOther) {
  const std::vector<LaneItem> items{{.begin = 0, .end = 10, .id = 0},
                                    {.begin = 5, .end = 8, .id = 1},
                                    {.begin = 9, .end = 12, .id = 2},
                                    {.begin = 10, .end = 11, .id = 3}};
  const auto lanes = lay_on_lanes(items);
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].size(), 2u) << "0, and 3 that begins where it ends";
  EXPECT_EQ(lanes[1].size(), 2u) << "1 and 2";
}

TEST(SpanLanes, WhatOverlapsTooDeeplySharesTheLastLane) {
  std::vector<LaneItem> items;
  for (std::uint32_t i = 0; i < most_lanes + 20; ++i)
    items.push_back({.begin = i, .end = 1000 + i, .id = i});
  const auto lanes = lay_on_lanes(items);
  EXPECT_EQ(lanes.size(), most_lanes);
  EXPECT_EQ(lanes.back().size(), 21u) << "nothing is lost";
}

TEST(SpanLanes, TakeAtMost24BytesASpan) {
  SpanLane lane;
  for (std::uint32_t i = 0; i < 100'000; ++i) lane.add(i * 10, i * 10 + 5, i, SpanColour::forward);
  lane.finish();
  EXPECT_LE(lane.allocated_bytes(), 100'000u * 24);
}

/// A lane of random spans, some without duration, some without a gap before them.
SpanLane random_lane(std::mt19937& random, std::size_t size) {
  SpanLane lane;
  std::int64_t time = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    time += random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random() % 50);
    const auto length = static_cast<std::int64_t>(random() % 4 == 0 ? 0 : random() % 200);
    lane.add(time, time + length, i, static_cast<SpanColour>(random() % span_colour_count));
    time += length;
  }
  lane.finish();
  return lane;
}

/// What the pixel [from, to) shows, by looking at every span.
LanePixel looked_up(const SpanLane& lane, std::int64_t from, std::int64_t to) {
  std::array<std::int64_t, span_colour_count> busy{};
  LanePixel pixel;
  for (std::size_t i = 0; i < lane.size(); ++i) {
    const bool is_instant = lane.begin(i) == lane.end(i);
    const bool meets =
        lane.begin(i) < to && (is_instant ? lane.begin(i) >= from : lane.end(i) > from);
    if (!meets) continue;
    const auto colour = static_cast<std::size_t>(lane.colour(i));
    if (pixel.colour == LanePixel::blank) pixel.colour = static_cast<std::uint8_t>(colour);
    busy[colour] += std::min(lane.end(i), to) - std::max(lane.begin(i), from);
  }
  const auto most = std::max_element(busy.begin(), busy.end());
  if (*most > 0) pixel.colour = static_cast<std::uint8_t>(most - busy.begin());
  std::int64_t all = 0;
  for (const std::int64_t time : busy) all += time;
  pixel.busy = static_cast<std::uint8_t>(
      std::lround(static_cast<double>(all) / static_cast<double>(to - from) * 255));
  return pixel;
}

TEST(SpanLanes, EveryPixelIsWhatLookingAtEverySpanGives) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const SpanLane lane = random_lane(random, 1 + random() % 800);
    const std::int64_t end = lane.end(lane.size() - 1) + 100;
    const auto begin = static_cast<std::int64_t>(random() % 1000) - 500;
    const auto width = static_cast<std::int64_t>(1 + random() % (round % 2 == 0 ? 40 : 4000));
    std::vector<std::int64_t> edges{begin};
    while (edges.back() < end && edges.size() < 400) edges.push_back(edges.back() + width);
    const auto pixels = pixels_of(lane, edges);
    for (std::size_t x = 0; x < pixels.size(); ++x)
      ASSERT_EQ(pixels[x], looked_up(lane, edges[x], edges[x + 1]))
          << "round " << round << ", pixel " << x;
  }
}

}  // namespace
}  // namespace shardscope::gui
