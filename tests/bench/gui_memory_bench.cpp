// How long it takes to draw a memory snapshot of 100,000 actions whole: from the parsed snapshot to
// levels, their index and the columns of a screen; and what a zoom and a click cost then.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "gui/data/live_set.h"
#include "gui/data/live_tree.h"
#include "gui/data/memory_picture.h"

namespace shardscope::gui {
namespace {

constexpr std::size_t screen_columns = 1920;

/// `actions` allocations and frees: of each ten blocks nine live for a short while and one to the
/// end; stacks of one frame, of 40 places.
MemorySnapshot generated_snapshot(std::uint32_t actions) {
  MemorySnapshot snapshot;
  snapshot.file = "generated.pickle";
  snapshot.names = {"", "train.py", "forward", "optimizer.py", "step"};
  snapshot.streams = {0};
  for (std::uint32_t i = 0; i < 40; ++i) {
    snapshot.frames.push_back(
        {.name = i % 4 == 0 ? 4u : 2u, .file = i % 4 == 0 ? 3u : 1u, .line = i});
    snapshot.stack_frames.push_back(i);
    snapshot.stack_begins.push_back(i + 1);
  }
  SnapshotEvents events;
  std::vector<std::uint32_t> live;
  const auto add = [&](SnapshotAction action, std::uint32_t block) {
    events.time_us.push_back(1'700'000'000'000'000 + events.action.size() / 3);
    events.address.push_back(0x7f0000000000 + std::int64_t{block} * 4096);
    events.size.push_back(512 + (block * 7919) % 3'000'000);
    events.stream.push_back(0);
    events.stack.push_back(1 + block % 40);
    events.context.push_back(no_name);
    events.note.push_back(no_name);
    events.category.push_back(no_name);
    events.pool.push_back(no_name);
    events.action.push_back(action);
  };
  for (std::uint32_t block = 0; events.count() + 3 < actions; ++block) {
    add(SnapshotAction::alloc, block);
    if (block % 10 != 0) live.push_back(block);
    if (live.size() < 200) continue;
    const std::uint32_t freed = live[block % live.size()];
    add(SnapshotAction::free_requested, freed);
    add(SnapshotAction::free_completed, freed);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(block % live.size()));
  }
  snapshot.events.push_back(std::move(events));
  return snapshot;
}

ScenarioPointer scenario_of(std::uint32_t actions) {
  auto scenario = std::make_shared<Scenario>();
  scenario->label = "snapshot";
  Side side{.kind = SideKind::profiled};
  side.snapshots = {std::make_shared<const MemorySnapshot>(generated_snapshot(actions))};
  scenario->profiled = std::move(side);
  return scenario;
}

MemoryPictureRequest request_of(const ScenarioPointer& scenario) {
  return {.a = scenario,
          .whole = {.begin = 0,
                    .end = static_cast<double>(memory_extent(*scenario->profiled)->end.ns)}};
}

void draw_whole(benchmark::State& state) {
  const ScenarioPointer scenario = scenario_of(static_cast<std::uint32_t>(state.range(0)));
  const MemoryPictureRequest request = request_of(scenario);
  for ([[maybe_unused]] auto _ : state) {
    const MemoryPicture picture = memory_picture(request);
    const MemorySideCurve& curve = *picture.a->profiled;
    benchmark::DoNotOptimize(
        band_columns(curve.begins, curve.levels.end, curve.totals, request.whole, screen_columns));
    state.counters["levels"] = static_cast<double>(curve.levels.levels.size());
  }
}
BENCHMARK(draw_whole)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void zoom(benchmark::State& state) {
  const ScenarioPointer scenario = scenario_of(static_cast<std::uint32_t>(state.range(0)));
  const MemoryPictureRequest request = request_of(scenario);
  const MemoryPicture picture = memory_picture(request);
  const MemorySideCurve& curve = *picture.a->profiled;
  double length = request.whole.length();
  for ([[maybe_unused]] auto _ : state) {
    length = length < 1000 ? request.whole.length() : length * 0.7;
    const TimeRange range{request.whole.begin, request.whole.begin + length};
    benchmark::DoNotOptimize(
        band_columns(curve.begins, curve.levels.end, curve.totals, range, screen_columns));
  }
}
BENCHMARK(zoom)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void click(benchmark::State& state) {
  const ScenarioPointer scenario = scenario_of(static_cast<std::uint32_t>(state.range(0)));
  const MemoryPicture picture = memory_picture(request_of(scenario));
  const MemorySideCurve& curve = *picture.a->profiled;
  const MemoryLevel& level = curve.levels.levels[*curve.peak];
  for ([[maybe_unused]] auto _ : state) {
    const LiveSet set = live_set(*scenario, curve.source, level);
    benchmark::DoNotOptimize(live_tree(set));
    state.counters["blocks"] = static_cast<double>(set.buffers.size());
  }
}
BENCHMARK(click)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardscope::gui
