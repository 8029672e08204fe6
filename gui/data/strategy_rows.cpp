#include "gui/data/strategy_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "traces/analysis.h"
#include "traces/memory_fit.h"

namespace shardscope::gui {
namespace {

/// Collectives that start in the window; one that is recorded as several spans counts once a span.
StepTraffic traffic_of(const Trace& trace, TimeWindow window) {
  const FactsTable facts(trace);
  StepTraffic traffic;
  for (const Span& span : trace.spans) {
    if (span.span_class != SpanClass::communication || !is_on_device(trace, span)) continue;
    if (span.start < window.begin || span.start >= window.end) continue;
    ++traffic.collectives;
    if (const OperationFacts* fact = facts.find(span.operation)) traffic.bytes += fact->bytes;
  }
  return traffic;
}

/// Half of what lies between the shortest and the longest step but the first, of `step`.
double spread_of(const Trace& trace, Duration step) {
  std::vector<StepWindow> steps = step_windows(trace);
  if (steps.size() < 3 || step.ns <= 0) return 0;
  const auto [shortest, longest] = std::minmax_element(
      steps.begin() + 1, steps.end(),
      [](const auto& a, const auto& b) { return a.window.length() < b.window.length(); });
  return static_cast<double>((longest->window.length() - shortest->window.length()).ns) / 2 /
         static_cast<double>(step.ns);
}

void add_memory(SideFigures& figures, const MemorySummary& memory) {
  if (memory.peak_allocated > Bytes{}) figures.peak = memory.peak_allocated;
  figures.at_peak = memory.at_peak;
  if (memory.peak_reserved > Bytes{}) figures.reserved = memory.peak_reserved;
  if (memory.outside > Bytes{}) figures.outside = memory.outside;
}

SideFigures figures_of(const Summary& summary) {
  SideFigures figures{.ran_out = summary.out_of_memory.has_value(),
                      .step = summary.step_time,
                      .time = summary.time};
  if (const Bytes needed = needed_memory(summary); needed > summary.memory.outside)
    figures.needed = needed;
  const Duration band = summary.step_time_high - summary.step_time_low;
  if (summary.step_time.ns > 0)
    figures.spread_share =
        static_cast<double>(band.ns) / 2 / static_cast<double>(summary.step_time.ns);
  add_memory(figures, summary.memory);
  figures.mfu_share = summary.mfu_share;
  if (summary.tokens_per_s > 0) figures.tokens_per_s = summary.tokens_per_s;
  return figures;
}

SideFigures figures_of(const Trace& trace) {
  const TimeWindow step = shown_step(trace);
  SideFigures figures{.step = step.length(), .time = account(trace, step)};
  if (!trace.memory.empty()) {
    const MemoryPeak peak = memory_peak(trace, step);
    figures.peak = peak.total;
    figures.at_peak = peak.at_peak;
  }
  return figures;
}

/// What an import's summary has for a strategy that the trace does not say.
constexpr std::string_view not_told = "imported";

/// Our traces say "cuda: h100_sxm"; those of others have streams where there was a GPU.
void add_machine(SideFigures& figures, const Side& side) {
  if (!side.imported.empty()) {
    const auto& tracks = side.imported.front()->tracks;
    figures.on_gpu = std::any_of(tracks.begin(), tracks.end(), [](const ImportedTrack& track) {
      return track.kind == TrackKind::stream;
    });
    return;
  }
  const std::string& device = side.ranks.front()->device;
  if (device.empty()) return;
  const std::size_t colon = device.find(": ");
  figures.on_gpu = device.substr(0, colon) != "cpu";
  if (colon != std::string::npos) figures.machine = device.substr(colon + 2);
}

std::optional<SideFigures> figures_of(const std::optional<Side>& side) {
  if (!side || (!side->summary && !side->has_trace())) return std::nullopt;
  SideFigures figures =
      side->summary ? figures_of(*side->summary) : figures_of(*side->ranks.front());
  if (!side->has_trace()) return figures;
  add_machine(figures, *side);
  if (figures.ran_out) return figures;
  const Trace& trace = *side->ranks.front();
  const StepTraffic traffic = traffic_of(trace, shown_step(trace));
  // Of a trace of hosts alone the calls are known, and not what moved.
  const bool is_known = traffic.collectives > 0 || figures.time.communication == Duration{};
  if (is_known) figures.traffic = traffic;
  if (side->kind == SideKind::profiled)
    figures.spread_share = std::max(figures.spread_share, spread_of(trace, figures.step));
  return figures;
}

bool has_point(const StrategyRow& row) {
  const SideFigures* figures = row.figures();
  return figures != nullptr && figures->peak && figures->has_step();
}

bool beats(const SideFigures& a, const SideFigures& b) {
  const bool is_no_worse = a.step <= b.step && *a.peak <= *b.peak;
  return is_no_worse && (a.step < b.step || *a.peak < *b.peak);
}

}  // namespace

bool is_unsharded(const StrategyRow& row) {
  constexpr std::array<std::string_view, 3> names{"no_shard", "ddp", "DDP"};
  return std::find(names.begin(), names.end(), row.strategy) != names.end();
}

std::optional<double> SideFigures::overlap_share() const {
  if (time.communication.ns <= 0) return std::nullopt;
  return static_cast<double>(time.overlap.ns) / static_cast<double>(time.communication.ns);
}

const SideFigures* StrategyRow::figures() const {
  if (profiled) return &*profiled;
  return predicted ? &*predicted : nullptr;
}

const SideFigures* StrategyRow::figures(SideKind kind) const {
  const auto& side = kind == SideKind::predicted ? predicted : profiled;
  return side ? &*side : nullptr;
}

std::optional<Bytes> StrategyRow::margin() const {
  const SideFigures* of = figures();
  if (device_memory && of != nullptr && of->needed) return *device_memory - *of->needed;
  if (!device_memory || of == nullptr || !of->peak) return std::nullopt;
  return *device_memory - of->reserved.value_or(*of->peak) - of->outside.value_or(Bytes{});
}

StrategyRow strategy_row(const ScenarioPointer& scenario) {
  StrategyRow row{.scenario = scenario, .label = scenario->label};
  row.predicted = figures_of(scenario->predicted);
  row.profiled = figures_of(scenario->profiled);
  for (const auto* side : {&scenario->predicted, &scenario->profiled}) {
    if (!*side || !(*side)->summary) continue;
    const Summary& summary = *(*side)->summary;
    if (summary.strategy != not_told) row.strategy = summary.strategy;
    row.world = summary.world;
    if (summary.device_memory) row.device_memory = summary.device_memory;
    row.fits = summary.fits;
  }
  return row;
}

std::optional<std::size_t> default_baseline(const std::vector<StrategyRow>& rows) {
  std::optional<std::size_t> fastest;
  const bool all_ran_out = std::ranges::all_of(rows, &StrategyRow::ran_out);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].ran_out() && !all_ran_out) continue;
    if (is_unsharded(rows[i])) return i;
    const SideFigures* figures = rows[i].figures();
    if (figures != nullptr && figures->has_step() &&
        (!fastest || figures->step < rows[*fastest].figures()->step))
      fastest = i;
  }
  return fastest;
}

std::vector<bool> pareto_front(const std::vector<StrategyRow>& rows) {
  std::vector<bool> front(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    front[i] =
        has_point(rows[i]) && rows[i].fits &&
        std::none_of(rows.begin(), rows.end(), [&](const StrategyRow& other) {
          return has_point(other) && other.fits && beats(*other.figures(), *rows[i].figures());
        });
  return front;
}

}  // namespace shardscope::gui
