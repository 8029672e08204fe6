#include "traces/import/kineto_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/traces/chrome_text.h"

namespace shardscope {
namespace {

using samples::chrome_text;
using samples::imported;
using samples::kernel;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<std::string> names_of(const ImportedTrace& trace) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < trace.events.size(); ++i) names.emplace_back(trace.name_of(i));
  return names;
}

std::string event(std::string_view fields) {
  return fmt::format(R"({{"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 2, {}}})", fields);
}

std::string good(std::string_view name) {
  return event(fmt::format(R"("name": "{}", "ts": 1, "dur": 1)", name));
}

TEST(KinetoReader, ReadsTimesInAllThreeBases) {
  const auto integers = imported(chrome_text(kernel("a", 7, "1623143089861000", "25")));
  EXPECT_EQ(integers.events.start_ns[0], 1623143089861000000);
  EXPECT_EQ(integers.events.duration_ns[0], 25000);
  const auto fractions = imported(chrome_text(kernel("a", 7, "1623143089861000.123", "0.001")));
  EXPECT_EQ(fractions.events.start_ns[0], 1623143089861000123);
  EXPECT_EQ(fractions.events.duration_ns[0], 1);
  const auto relative = imported(
      chrome_text(kernel("a", 7, "5.250", "1"), R"("baseTimeNanoseconds": 1790857026000000000)"));
  EXPECT_EQ(relative.base_ns, 1790857026000000000);
  EXPECT_EQ(relative.events.start_ns[0], 5250);
}

TEST(KinetoReader, FindsTheBaseBehindTheEvents) {
  const auto trace = imported(R"({"traceEvents": [], "baseTimeNanoseconds": 17})");
  EXPECT_EQ(trace.base_ns, 17);
}

TEST(KinetoReader, ReadsAnArrayOfEvents) {
  EXPECT_THAT(names_of(imported("[" + good("a") + ",\n" + good("b") + "]")), ElementsAre("a", "b"));
}

TEST(KinetoReader, LosesOneEventForOneThatIsDamaged) {
  for (const char* damaged : {
           R"({"ph": "X", "name": "un"escaped", "ts": 1, "dur": 1})",
           R"({"ph": "X", "name": "open, "ts": 1, "dur": 1})",
           R"({"ph": "X", "name": "x", "args": {"a": "unclosed }, "ts": 1, "dur": 1})",
           R"({"ph": "X", "name": "x", "args": {"a": 1, "ts": 1, "dur": 1})",
           R"({"ph": "X", "name": "x", "ts": , "dur": 1})",
           R"({"ph": "X", "name": "x" "ts": 1})",
           R"({"ph": "X", "name": "x", "args": {"a": [1, 2}}, "ts": 1})",
           R"({"ph": "X", "name": "x", "ts": 1, )",
       }) {
    const auto trace = imported(chrome_text(good("a") + ",\n" + damaged + ",\n  " + good("b")));
    EXPECT_THAT(names_of(trace), ElementsAre("a", "b")) << damaged;
    EXPECT_THAT(trace.report.skipped, ElementsAre(Pair("damaged JSON", 1))) << damaged;
    EXPECT_EQ(trace.report.events_read, 3);
    EXPECT_EQ(trace.report.events_kept, 2);
  }
}

TEST(KinetoReader, KeepsTheKeysBehindADamagedLastEvent) {
  const auto trace = imported("{\"traceEvents\": [" + good("a") +
                              R"(, {"ph": "X", "name": "un"escaped"}], "baseTimeNanoseconds": 9})");
  EXPECT_EQ(trace.base_ns, 9);
  EXPECT_EQ(trace.report.skipped.at("damaged JSON"), 1);
}

TEST(KinetoReader, LoadsWhatACutOffFileHas) {
  const std::string whole = chrome_text(good("a") + ", " + good("b") + ", " + good("c"));
  const std::string cut = whole.substr(0, whole.find("\"c\""));
  const auto trace = imported(cut);
  EXPECT_THAT(names_of(trace), ElementsAre("a", "b"));
  EXPECT_THAT(trace.report.skipped, ElementsAre(Pair("damaged JSON or cut off at the end", 1)));
  EXPECT_THAT(trace.report.guessed, testing::Contains("the file is cut off"));
}

TEST(KinetoReader, KeepsOddTextAndCountsIt) {
  const auto trace =
      imported(chrome_text(good("line\nbreak") + "," + good("bad \xff byte") + "," +
                           event(R"("name": "n", "ts": 1, "dur": 1, "args": {"x": NaN})") + "," +
                           good("fine é") + "," + good("esc\\u00e9\\\"")));
  EXPECT_THAT(names_of(trace),
              ElementsAre("line\nbreak", "bad \xEF\xBF\xBD byte", "n", "fine é", "escé\""));
  EXPECT_THAT(trace.report.odd, ElementsAre(Pair("hold NaN or infinities", 1),
                                            Pair("hold bytes that are not UTF-8", 1),
                                            Pair("hold raw control characters", 1)));
  EXPECT_THAT(trace.report.skipped, IsEmpty());
}

TEST(KinetoReader, CountsEventsWithoutATime) {
  const auto trace = imported(chrome_text(event(R"("name": "n", "ts": NaN, "dur": 1)") + "," +
                                          event(R"("name": "n", "dur": 1)") + ", 7"));
  EXPECT_THAT(trace.report.skipped,
              ElementsAre(Pair("no usable time", 2), Pair("not an object", 1)));
  EXPECT_EQ(trace.report.events_read, 3);
  EXPECT_EQ(trace.report.events_kept, 0);
}

TEST(KinetoReader, GivesSpansWithoutAnEndOne) {
  const auto trace = imported(chrome_text(
      R"({"ph": "B", "name": "open", "pid": 1, "tid": 2, "ts": 1},
         {"ph": "B", "name": "inner", "pid": 1, "tid": 2, "ts": 2},
         {"ph": "E", "pid": 1, "tid": 2, "ts": 5},
         {"ph": "E", "pid": 1, "tid": 9, "ts": 5},
         {"ph": "X", "name": "long", "pid": 1, "tid": 3, "ts": 1},
         {"ph": "X", "name": "negative", "pid": 1, "tid": 3, "ts": 20, "dur": -4},
         {"ph": "i", "name": "last", "pid": 1, "tid": 3, "ts": 30})"));
  EXPECT_EQ(trace.events.duration_ns[0], 29000);  // to the last time in the file
  EXPECT_EQ(trace.events.duration_ns[1], 3000);
  EXPECT_EQ(trace.events.duration_ns[2], 0);
  EXPECT_EQ(trace.events.duration_ns[3], 0);
  EXPECT_EQ(trace.report.odd.at("have no end, taken to last to the end of the trace"), 1);
  EXPECT_EQ(trace.report.odd.at("have no duration, taken as 0"), 1);
  EXPECT_EQ(trace.report.odd.at("have a negative duration, taken as 0"), 1);
  EXPECT_EQ(trace.report.skipped.at("an end without a beginning"), 1);
}

TEST(KinetoReader, LaysOverlappingKernelsSideBySideAndCountsThem) {
  const auto trace =
      imported(chrome_text(kernel("a", 7, "0", "10") + "," + kernel("b", 7, "4", "2") + "," +
                           kernel("c", 7, "10", "1") + "," + kernel("d", 8, "0", "5")));
  EXPECT_EQ(trace.events.lane[0], 0);
  EXPECT_EQ(trace.events.lane[1], 1);
  EXPECT_EQ(trace.events.lane[2], 0);  // begins when a ends
  EXPECT_EQ(trace.tracks[0].overlaps, 1);
  EXPECT_EQ(trace.tracks[0].lanes, 2u);
  EXPECT_EQ(trace.tracks[1].overlaps, 0);
  EXPECT_EQ(trace.report.odd.at("overlap another event of their stream"), 1);
}

TEST(KinetoReader, KeepsTheDevicesAnnotationsOffTheStreams) {
  const std::string mark =
      R"({"ph": "X", "cat": "gpu_user_annotation", "name": "m", "pid": 0, "tid": 7, "ts": 0, "dur": 9})";
  const auto trace = imported(chrome_text(kernel("a", 7, "1", "1") + "," + mark));
  EXPECT_EQ(trace.track_of(0).kind, TrackKind::stream);
  EXPECT_EQ(trace.track_of(1).kind, TrackKind::annotations);
  EXPECT_EQ(trace.report.odd.count("overlap another event of their stream"), 0u);
}

TEST(KinetoReader, ReadsMemoryWithItsSigns) {
  const auto memory = [](int bytes, int total) {
    return fmt::format(
        R"({{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "ts": 3, "args": {{"Ev Idx": 4, "Device Type": 1, "Device Id": 0, "Bytes": {}, "Total Allocated": {}, "Total Reserved": 900}}}})",
        bytes, total);
  };
  const auto trace = imported(chrome_text(memory(512, 812) + "," + memory(-512, 300)));
  ASSERT_EQ(trace.memory.size(), 2u);
  EXPECT_EQ(trace.memory[1].bytes, Bytes{-512});
  EXPECT_EQ(trace.memory[1].allocated, Bytes{300});
  EXPECT_EQ(trace.memory[0].reserved, Bytes{900});
  EXPECT_EQ(trace.memory_devices[0], (MemoryDevice{1, 0}));
}

TEST(KinetoReader, KeepsEventsWithoutTheArgumentsTheyShouldHave) {
  const auto trace = imported(chrome_text(
      R"({"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": 3},
         {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3, "dur": 1})"));
  EXPECT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.report.odd.at("are [memory] without its figures"), 1);
  EXPECT_EQ(trace.track_of(1).device, 0);  // what pid and tid say
  EXPECT_EQ(trace.track_of(1).stream, 7);
  EXPECT_EQ(trace.report.odd.at("are activities of a device that only pid and tid tell"), 1);
}

TEST(KinetoReader, LeavesOutMemoryThatNoMachineHas) {
  const auto memory = [](std::string_view bytes, std::string_view allocated, std::string_view id) {
    return fmt::format(
        R"({{"ph": "i", "name": "[memory]", "pid": 0, "tid": 7, "ts": 1, "args": {{"Bytes": {}, "Total Allocated": {}, "Total Reserved": 0, "Device Type": 1, "Device Id": {}}}}})",
        bytes, allocated, id);
  };
  const auto trace = imported(chrome_text(
      memory("-512", "281474976710656", "4095") + "," + memory("0", "281474976710657", "0") + "," +
      memory("0", "-4611686018427387", "0") + "," + memory("4611686018427387", "0", "0") + "," +
      memory("0", "0", "-4611686018427387") + "," + memory("0", "0", "4096")));
  ASSERT_EQ(trace.memory.size(), 1u);
  EXPECT_EQ(trace.memory[0].allocated, (Bytes{std::int64_t{1} << 48}));
  EXPECT_EQ(trace.memory_devices.size(), 1u);
  EXPECT_EQ(trace.report.odd.at("are [memory] with figures that no machine has, left out"), 5);
}

TEST(KinetoReader, LeavesOutDevicesBytesAndDurationsThatNoMachineHas) {
  const auto activity = [](std::string_view device, std::string_view bytes, std::string_view dur) {
    return fmt::format(
        R"({{"ph": "X", "cat": "gpu_memcpy", "name": "c", "pid": 3, "tid": 7, "ts": 1, "dur": {}, "args": {{"device": {}, "stream": 7, "bytes": {}}}}})",
        dur, device, bytes);
  };
  const auto trace = imported(chrome_text(
      activity("4096", "8", "1") + "," + activity("0", "-1", "1") + "," +
      activity("0", "281474976710657", "1") + "," + activity("0", "8", "4611686018427387")));
  EXPECT_EQ(trace.track_of(0).device, 3);  // the process tells it, then
  EXPECT_THAT(
      trace.report.odd,
      testing::IsSupersetOf({Pair("name bytes or a device that no machine has, left out", 3),
                             Pair("last over 13 days, taken as 0", 1)}));
  ASSERT_EQ(trace.copied_bytes.size(), 2u);
  EXPECT_EQ(trace.events.duration_ns[3], 0);
}

TEST(KinetoReader, FindsAnEventsTextAgain) {
  const std::string second = event(R"("name": "b", "ts": 2, "dur": 1, "args": {"shape": [3, 4]})");
  const auto trace = imported(chrome_text(good("a") + ",\n   " + second));
  EXPECT_EQ(trace.text_of(1), second);
}

/// A text of several windows, with one damaged event in its middle and one at its end.
TEST(KinetoReader, LosesNothingAtTheEdgesOfItsWindow) {
  constexpr int count = 60'000;
  std::string events;
  for (int i = 0; i < count; ++i) {
    events += event(fmt::format(R"("name": "op {}", "ts": {}, "dur": 1, "args": {{"pad": "{}"}})",
                                i % 10, i, std::string(static_cast<std::size_t>(i % 211), 'x'))) +
              ",\n";
    if (i == count / 2) events += "{\"ph\": \"X\", \"name\": \"un\"escaped\"},\n";
  }
  const auto trace = imported(chrome_text(events + "{\"ph\": \"X\", \"name\": \"un\"escaped\"}"));
  ASSERT_EQ(trace.events.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(trace.report.skipped.at("damaged JSON"), 2);
  EXPECT_EQ(trace.names.size(), 10u);
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    ASSERT_EQ(trace.events.start_ns[i], static_cast<std::int64_t>(i) * 1000);
  EXPECT_LT(trace.allocated_bytes(), 60u * count + 1'000'000);
}

TEST(KinetoReader, BoundsNesting) {
  const std::string deep(100'000, '[');
  const auto trace = imported(chrome_text(
      event(R"("name": "n", "ts": 1, "dur": 1, "args": {"x": )" + deep + "}") + "," + good("b")));
  EXPECT_THAT(names_of(trace), ElementsAre("b"));
}

}  // namespace
}  // namespace shardscope
