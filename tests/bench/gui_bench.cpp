// How fast the window is: a real trace from its file to the screen, and painting ten million
// events.
#include <benchmark/benchmark.h>

#include <QApplication>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "gui/base/theme.h"
#include "gui/data/open_scenarios.h"
#include "gui/timeline/timeline_canvas.h"
#include "gui/timeline/timeline_view.h"

namespace shardscope::gui {
namespace {

constexpr std::size_t lanes = 25;
constexpr std::size_t spans_per_lane = 400'000;
constexpr int patience_ms = 60'000;

void start_application() {
  static int count = 1;
  static char name[] = "gui_bench";
  static char* arguments[] = {name, nullptr};
  qputenv("QT_QPA_PLATFORM", SHARDSCOPE_OFFSCREEN);
  // Lives as long as the process: widgets' caches must not outlive it.
  static auto* const instance = new QApplication(count, arguments);
  set_appearance(*instance, Appearance::light);
}

/// One step of ten million events on 25 streams: compute, collectives and copies of 0.1 to 4 us
/// with gaps between them, now and then a long one.
Trace ten_million() {
  Trace trace;
  for (int i = 0; i < 64; ++i) trace.names.push_back("kernel_" + std::to_string(i));
  std::mt19937 random(1);
  trace.spans.reserve(lanes * spans_per_lane);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const Stream stream = lane % 5 == 3   ? Stream::unshard
                          : lane % 5 == 4 ? Stream::copy
                                          : Stream::compute;
    trace.tracks.push_back({.name = "stream " + std::to_string(lane), .stream = stream});
    std::int64_t time = 0;
    for (std::size_t i = 0; i < spans_per_lane; ++i) {
      const std::int64_t length = random() % 5000 == 0 ? 400'000 : 100 + random() % 4000;
      trace.spans.push_back({.start = {time},
                             .duration = {length},
                             .name = static_cast<std::uint32_t>(random() % trace.names.size()),
                             .track = static_cast<std::uint16_t>(lane),
                             .span_class = stream == Stream::copy      ? SpanClass::copy
                                           : stream == Stream::unshard ? SpanClass::communication
                                                                       : SpanClass::compute,
                             .step = 1});
      time += length + static_cast<std::int64_t>(random() % 2000);
    }
  }
  return trace;
}

ScenarioPointer big_scenario() {
  static const ScenarioPointer scenario = [] {
    auto made = std::make_shared<Scenario>();
    made->label = "ten million";
    made->profiled = Side{.kind = SideKind::profiled};
    made->profiled->ranks = {std::make_shared<const Trace>(ten_million())};
    return made;
  }();
  return scenario;
}

void prepare_ten_million(benchmark::State& state) {
  const ScenarioPointer scenario = big_scenario();
  std::size_t bytes = 0, spans = 0;
  for (auto _ : state) {
    const TimelineRank rank = prepare_rank(scenario, SideKind::profiled, 0);
    bytes = spans = 0;
    for (const TimelineTrack& track : rank.tracks)
      for (const SpanLane& lane : track.lanes) {
        bytes += lane.allocated_bytes();
        spans += lane.size();
      }
  }
  state.counters["bytes_per_event"] = static_cast<double>(bytes) / static_cast<double>(spans);
}
BENCHMARK(prepare_ten_million)->Unit(benchmark::kMillisecond)->Iterations(1);

/// Where one looks, frame by frame: in to a microsecond at five places, panning on the way, and
/// out.
std::vector<TimeRange> journey(TimeRange whole) {
  std::vector<TimeRange> frames;
  for (const double place : {0.1, 0.3, 0.5, 0.77, 0.93}) {
    const double centre = whole.begin + place * whole.length();
    TimeRange range = whole;
    while (range.length() > 1000) {
      frames.push_back(range);
      for (int i = 0; i < 3; ++i) frames.push_back(range = panned(range, 0.02));
      range = zoomed(range, 0.8, centre);
    }
    frames.push_back(whole);
  }
  return frames;
}

void paint_ten_million(benchmark::State& state) {
  start_application();
  Workspace workspace;
  TimelineCanvas canvas(workspace, nullptr);
  canvas.resize(1920, 1080);
  workspace.add(big_scenario());
  TimelineRequest request{.a = workspace.a()};
  canvas.show_data(std::make_shared<const TimelineData>(prepare_timeline(request)));
  canvas.show();
  const std::vector<TimeRange> frames = journey(workspace.whole());
  QImage screen(1920, 1080, QImage::Format_RGB32);
  std::vector<double> milliseconds;
  std::size_t next = 0;
  for (auto _ : state) {
    workspace.show(frames[next++ % frames.size()], Workspace::Remember::no);
    const auto begin = std::chrono::steady_clock::now();
    canvas.render(&screen);
    milliseconds.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const auto at = [&](double share) {
    return milliseconds[static_cast<std::size_t>(share *
                                                 static_cast<double>(milliseconds.size() - 1))];
  };
  state.counters["p50_ms"] = at(0.5);
  state.counters["p95_ms"] = at(0.95);
  state.counters["max_ms"] = at(1);
}
BENCHMARK(paint_ten_million)->Unit(benchmark::kMillisecond)->Iterations(1400);

/// The 216,092 events of a real trace: from the file to the painted view.
void open_216k_to_screen(benchmark::State& state) {
  start_application();
  const std::filesystem::path file =
      std::filesystem::path(SOURCE_ROOT) / "../shared/data/traces/hta_ddp_v100_memory_216k.json.gz";
  if (!std::filesystem::exists(file)) return state.SkipWithError("needs ../shared/data/traces");
  for (auto _ : state) {
    Workspace workspace;
    TimelineView view(workspace);
    view.resize(1920, 1080);
    view.show();
    workspace.tasks().run(
        &view, [&](std::stop_token) { return open_scenarios(file); },
        [&](const std::vector<ScenarioPointer>& opened) { workspace.add(opened.front()); });
    while (view.canvas().data().sources.empty())
      QApplication::processEvents(QEventLoop::WaitForMoreEvents);
    benchmark::DoNotOptimize(view.grab());
    state.PauseTiming();
    workspace.tasks().wait_until_idle(patience_ms);
    state.ResumeTiming();
  }
}
BENCHMARK(open_216k_to_screen)->Unit(benchmark::kMillisecond)->Iterations(3)->UseRealTime();

}  // namespace
}  // namespace shardscope::gui
