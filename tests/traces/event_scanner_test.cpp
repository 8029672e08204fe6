#include "traces/import/event_scanner.h"

#include <gtest/gtest.h>

#include "tests/traces/string_input.h"

namespace shardscope {
namespace {

struct CountingSink : EventSink {
  void header(std::string_view, std::string_view) override {}
  void event(const RawEvent&) override { ++events; }
  void lost(std::string_view) override { ++losses; }
  void remark(std::string_view) override {}
  bool progress(std::int64_t) override { return false; }
  void end(const ScannedText& all) override { text = all; }

  int events = 0, losses = 0;
  ScannedText text;
};

CountingSink scanned(const std::string& text) {
  samples::StringInput input(text);
  TextStore store = TextStore::temporary();
  CountingSink sink;
  scan_events(input, store, std::int64_t{1} << 30, sink);
  return sink;
}

std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  text.reserve(part.size() * times);
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::string_view opening = R"({"traceEvents": [)";
constexpr std::string_view event = R"({"ph": "X", "name": "a", "ts": 1, "dur": 1})";

TEST(EventScanner, LooksAtSoundTextOnce) {
  const std::string text =
      std::string(opening) + repeated(std::string(event) + ",\n", mib / 4) + "]}";
  const CountingSink sink = scanned(text);
  EXPECT_EQ(sink.events, static_cast<int>(mib / 4));
  // What a block cuts in two is looked at again: less than an event in each of three.
  EXPECT_LT(sink.text.scanned, static_cast<std::int64_t>(text.size() + 4 * event.size()));
}

TEST(EventScanner, LooksAtAnEventOfManyBlocksThriceAtMost) {
  const std::string text = std::string(opening) + R"({"ph": "X", "args": [)" +
                           repeated("0,", 14 * mib) + "0]}]}";  // 28 MiB
  const CountingSink sink = scanned(text);
  EXPECT_EQ(sink.events, 1);
  EXPECT_LT(sink.text.scanned, static_cast<std::int64_t>(3 * text.size()));
}

TEST(EventScanner, LooksAtDamagedTextAFewTimesHoweverDeepItIsNested) {
  const std::string nest = R"({"ph":[)", flat = repeated("0,", mib / 2);
  for (const std::string& text : {
           std::string(opening) + repeated(nest, 60) + repeated("0,", 34 * mib),
           std::string(opening) + repeated(nest + flat, 64),
           std::string(opening) + repeated(repeated(nest, 60) + repeated(flat, 8), 10),
           repeated(nest, 60) + repeated("0,", 34 * mib),
       }) {
    const CountingSink sink = scanned(text);
    EXPECT_EQ(sink.events, 0);
    EXPECT_EQ(sink.text.bytes, static_cast<std::int64_t>(text.size()));
    EXPECT_LT(sink.text.scanned, static_cast<std::int64_t>(128 * mib + 8 * text.size()));
  }
}

TEST(EventScanner, FindsTheEventsBehindTextThatWasReadInVain) {
  const std::string damaged = repeated(R"({"ph":[)", 60) + repeated("0,", 34 * mib);
  const CountingSink sink =
      scanned(std::string(opening) + damaged + "!," + std::string(event) + "]}");
  EXPECT_EQ(sink.events, 1);
}

}  // namespace
}  // namespace shardscope
