#include "gui/data/coverage.h"

#include <gtest/gtest.h>

#include <random>

namespace shardscope::gui {
namespace {

Trace two_streams() {
  Trace trace;
  trace.names = {"x"};
  trace.tracks = {{.name = "compute", .stream = Stream::compute},
                  {.name = "unshard", .stream = Stream::unshard},
                  {.name = "copy", .stream = Stream::copy}};
  return trace;
}

void add(Trace& trace, std::uint16_t track, SpanClass span_class, std::int64_t begin,
         std::int64_t end) {
  trace.spans.push_back(
      {.start = {begin}, .duration = {end - begin}, .track = track, .span_class = span_class});
}

TEST(Coverage, PixelsSumToTheirLength) {
  Trace trace = two_streams();
  add(trace, 0, SpanClass::compute, 0, 10);
  add(trace, 1, SpanClass::communication, 6, 14);
  add(trace, 2, SpanClass::copy, 12, 18);
  // [0, 10): compute 10, of it 4 over communication. [10, 20): 4 of communication, then 4 of
  // copies, 2 idle.
  const auto pixels = Coverage(trace).pixels(std::vector<std::int64_t>{0, 10, 20});
  EXPECT_EQ(pixels[0], (PixelTimes{.compute = 10, .overlapped = 4}));
  EXPECT_EQ(pixels[1], (PixelTimes{.communication = 4, .copy = 4, .idle = 2}));
}

TEST(Coverage, ExposedCommunicationIsListedByBegin) {
  Trace trace = two_streams();
  add(trace, 0, SpanClass::compute, 10, 20);
  add(trace, 1, SpanClass::communication, 5, 30);
  const Coverage coverage(trace);
  ASSERT_EQ(coverage.exposed().size(), 2u);
  EXPECT_EQ(coverage.exposed()[0], (TimeWindow{.begin = {5}, .end = {10}}));
  EXPECT_EQ(coverage.exposed()[1], (TimeWindow{.begin = {20}, .end = {30}}));
}

Trace random_trace(std::mt19937& random) {
  Trace trace = two_streams();
  constexpr SpanClass classes[] = {SpanClass::compute, SpanClass::communication, SpanClass::copy,
                                   SpanClass::host, SpanClass::annotation};
  for (std::uint16_t track = 0; track < 3; ++track) {
    std::int64_t time = 0;
    for (int i = 0; i < 150; ++i) {
      time += static_cast<std::int64_t>(random() % 60);
      const auto length = static_cast<std::int64_t>(random() % 90);
      add(trace, track, random() % 5 == 0 ? classes[random() % 5] : classes[track], time,
          time + length);
      time += length / (1 + static_cast<std::int64_t>(random() % 2));
    }
  }
  return trace;
}

TEST(Coverage, OfAnyWindowIsTheExactAccounting) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    const Trace trace = random_trace(random);
    const Coverage coverage(trace);
    for (int i = 0; i < 20; ++i) {
      const auto begin = static_cast<std::int64_t>(random() % 16'000) - 500;
      const TimeWindow window{.begin = {begin},
                              .end = {begin + static_cast<std::int64_t>(random() % 9000)}};
      ASSERT_EQ(coverage.account(window), account(trace, window)) << "round " << round;
    }
  }
}

TEST(Coverage, PixelsOfARangeSumToItsAccounting) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const Trace trace = random_trace(random);
    std::vector<std::int64_t> edges{static_cast<std::int64_t>(random() % 300) - 100};
    while (edges.size() < 300)
      edges.push_back(edges.back() + static_cast<std::int64_t>(random() % 80));
    PixelTimes sum;
    for (const PixelTimes& pixel : Coverage(trace).pixels(edges)) {
      sum.compute += pixel.compute;
      sum.overlapped += pixel.overlapped;
      sum.communication += pixel.communication;
      sum.copy += pixel.copy;
      sum.idle += pixel.idle;
    }
    const Accounting exact = account(trace, {.begin = {edges.front()}, .end = {edges.back()}});
    ASSERT_EQ(sum, (PixelTimes{.compute = exact.compute.ns,
                               .overlapped = exact.overlap.ns,
                               .communication = exact.exposed_communication.ns,
                               .copy = exact.exposed_copy.ns,
                               .idle = exact.idle.ns}));
  }
}

}  // namespace
}  // namespace shardscope::gui
