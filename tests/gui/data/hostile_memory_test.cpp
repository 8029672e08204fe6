// Figures of memory that no machine has: left out and counted, and nothing overflows by them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/format/atomic_file.h"
#include "gui/data/memory_picture.h"
#include "gui/data/open_scenarios.h"
#include "gui/diagnostics/identities.h"
#include "tests/gui/run_samples.h"
#include "traces/chrome_writer.h"
#include "traces/run_folder.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::sample_run_trace;
using shardscope::testing::SampleRun;
using shardscope::testing::ScratchFolder;
using shardscope::testing::write_sample_run;
using ::testing::HasSubstr;

constexpr std::array<std::string_view, 6> absurd{
    "-9223372036854775808", "9223372036854775807", "1e300", "-1e300", "288230376151711745", "0.5"};
constexpr std::int64_t most = std::int64_t{1} << 58;  // that a reader of ours believes

/// A sample and a counter with each absurd figure, and then four samples of the most and the least
/// in all categories.
Trace extreme_trace(TraceKind kind) {
  Trace trace = sample_run_trace(kind, 0, SampleRun{.world = 1});
  trace.counters = {{.name = "device_used", .samples = {}}};
  for (std::size_t i = 0; i < absurd.size(); ++i) {
    const auto marked = static_cast<std::int64_t>(1000001 + i);
    MemorySample sample{.time = {100}, .operation = {0}};
    sample.live[MemoryCategory::activations] = {marked};
    trace.memory.push_back(sample);
    trace.counters[0].samples.push_back({.time = {100}, .value = marked});
  }
  for (const std::int64_t all : {most, -most, most, -most}) {
    MemorySample sample{.time = {200}, .operation = {0}};
    for (const MemoryCategory category : memory_categories) sample.live[category] = {all};
    trace.memory.push_back(sample);
  }
  return trace;
}

void write_extreme_run(const ScratchFolder& folder) {
  write_sample_run(folder.path(), SampleRun{.world = 1});
  const RunFolder run{folder.path()};
  for (const auto& [kind, path] : {std::pair{TraceKind::predicted, run.predicted_trace()},
                                   {TraceKind::profiled, run.trace(0)}}) {
    std::string text = chrome_trace_json(extreme_trace(kind));
    for (std::size_t i = 0; i < absurd.size(); ++i) {
      const std::string marked = fmt::format("{}", 1000001 + i);
      for (std::size_t at; (at = text.find(marked)) != std::string::npos;)
        text.replace(at, marked.size(), absurd[i]);
    }
    write_atomically(path, text);
  }
}

TEST(HostileMemory, AbsurdFiguresAreCountedAndLeftOut) {
  const ScratchFolder folder;
  write_extreme_run(folder);
  const auto all = open_scenarios(folder.path());
  ASSERT_EQ(all.size(), 1U);
  const auto count = [&](std::string_view what) {
    return std::count_if(
        all[0]->findings.begin(), all[0]->findings.end(),
        [&](const Finding& finding) { return finding.what.find(what) != std::string::npos; });
  };
  EXPECT_EQ(count("6 events skipped: a memory sample with a wrong field"), 2);
  EXPECT_EQ(count("6 events skipped: a counter with a wrong field"), 2);
  for (const Side* side : {&*all[0]->predicted, &*all[0]->profiled}) {
    EXPECT_EQ(side->ranks.at(0)->memory.size(), 5U);
    EXPECT_EQ(side->ranks.at(0)->counters.at(0).samples.size(), 0U);
  }
}

// Eight categories of 2^58 bytes are 2^61.
TEST(HostileMemory, TheMostThatIsBelievedFitsIntoEverySum) {
  const ScratchFolder folder;
  write_extreme_run(folder);
  const auto all = open_scenarios(folder.path());
  ASSERT_EQ(all.size(), 1U);
  const MemoryPicture picture =
      memory_picture({.a = all[0], .whole = {.begin = 0, .end = 1000}, .selected = 0});
  ASSERT_TRUE(picture.a);
  EXPECT_EQ(picture.highest, Bytes{most * static_cast<std::int64_t>(memory_category_count)});
  // -2^58 B where a shard of 4,096 B is.
  const Side& predicted = *all[0]->predicted;
  const Finding finding = live_bytes_are_buffers(*predicted.ranks[0], predicted.buffers, "");
  EXPECT_THAT(finding.what, HasSubstr("off by 288,230,376,151,715,840 B (parameters at forward)"));
  EXPECT_THAT(identities_of(*all[0]).back().what,
              HasSubstr("differ by -288,230,376,151,715,840 B"));
}

TEST(HostileMemory, OfTheProfilerIsLeftOut) {
  const ScratchFolder folder;
  std::string events;
  for (const std::string_view figure : absurd)
    events += fmt::format(
        R"(,{{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "ts": 3,
              "args": {{"Ev Idx": 4, "Device Type": 1, "Device Id": 0, "Bytes": {0},
                        "Total Allocated": {0}, "Total Reserved": {0}}}}})",
        figure);
  write_atomically(
      folder / "worker.pt.trace.json",
      R"({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [
          {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 1, "dur": 5})" +
          events + "]}");
  const auto all = open_scenarios(folder / "worker.pt.trace.json");
  ASSERT_EQ(all.size(), 1U);
  const MemoryPicture picture = memory_picture({.a = all[0], .whole = {.begin = 0, .end = 1000}});
  EXPECT_LE(picture.highest.count, most);
  EXPECT_TRUE(
      std::any_of(all[0]->findings.begin(), all[0]->findings.end(), [](const Finding& finding) {
        return finding.what.find("[memory] with") != std::string::npos;
      }));
}

}  // namespace
}  // namespace shardscope::gui
