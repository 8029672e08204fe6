#include "traces/import/imported_spans.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "traces/import/collectives.h"
#include "traces/import/device_activity.h"
#include "traces/import/host_activity.h"

namespace shardscope {
namespace {

constexpr std::int64_t max_span_ns = std::int64_t{1} << 43;  // what our own traces may hold
constexpr std::int64_t max_time_ns = std::int64_t{1} << 50;
constexpr std::size_t max_tracks = 1 << 16;
constexpr std::int64_t max_ordinal = 1'000'000;  // of devices and ranks

Stream stream_of(SpanClass span_class, const ImportedCollective* collective) {
  if (span_class == SpanClass::copy) return Stream::copy;
  if (span_class != SpanClass::communication) return Stream::compute;
  if (collective == nullptr || !collective->kind) return Stream::send_receive;
  switch (*collective->kind) {
    case OperationKind::all_gather:
    case OperationKind::broadcast:
      return Stream::unshard;
    case OperationKind::reduce_scatter:
    case OperationKind::all_reduce:
    case OperationKind::reduce:
      return Stream::reduce;
    default:
      return Stream::send_receive;
  }
}

OperationFacts facts_of(const ImportedCollective& collective, OperationId id) {
  OperationFacts facts{.operation = id, .name = collective.name};
  facts.kind = *collective.kind;
  facts.group = collective.group;
  facts.elements_in = collective.elements_in.value_or(0);
  facts.elements_out = collective.elements_out.value_or(0);
  facts.dtype = collective.dtype.value_or(Dtype::float32);
  facts.bytes = size_of(facts.dtype) * std::max(facts.elements_in, facts.elements_out);
  return facts;
}

class Conversion {
 public:
  Conversion(const ImportedTrace& from, std::vector<DeviceActivities> devices)
      : from_(from), devices_(std::move(devices)), collectives_(imported_collectives(from)) {
    for (const ImportedCollective& collective : collectives_)
      collective_of_[collective.event] = &collective;
  }

  Trace of_devices() {
    if (devices_.empty()) return begun();
    start_ns_ = first_start();
    to_ = begun();
    to_.tracks.push_back({"host", Stream::host});
    for (const DeviceActivities& device : devices_) {
      for (const DeviceActivity& activity : device.activities) add(device, activity);
    }
    add_steps();
    return ordered();
  }

  Trace of_host() {
    const HostFigures figures = host_figures(from_);
    if (!figures.window) return begun();
    start_ns_ = figures.window->begin.ns;
    to_ = begun();
    for (const std::uint32_t event : host_spans(from_)) add_host(event);
    return ordered();
  }

 private:
  /// What is known before any span.
  Trace begun() const {
    Trace trace;
    trace.kind = TraceKind::imported;
    trace.rank = from_.rank && *from_.rank < max_ordinal ? *from_.rank : 0;
    trace.world = std::max(from_.world.value_or(1), trace.rank + 1);
    trace.base_ns = from_.base_ns + start_ns_;
    trace.device = "imported";
    return trace;
  }

  Trace ordered() {
    std::stable_sort(to_.spans.begin(), to_.spans.end(), [](const Span& a, const Span& b) {
      return a.track != b.track ? a.track < b.track : a.start < b.start;
    });
    return std::move(to_);
  }

  std::int64_t first_start() const {
    std::int64_t first = INT64_MAX;
    for (const DeviceActivities& device : devices_) {
      for (const DeviceActivity& activity : device.activities)
        first = std::min(first, activity.window.begin.ns);
    }
    return first;
  }

  std::optional<Span> span_of(TimeWindow window, std::uint32_t event) {
    const Duration start = window.begin - Duration{start_ns_};
    const bool fits =
        window.length().ns <= max_span_ns && start.ns <= max_time_ns && start.ns >= -max_time_ns;
    if (!fits) return std::nullopt;
    return Span{.start = start, .duration = window.length(), .name = name(from_.name_of(event))};
  }

  std::uint32_t name(std::string_view text) {
    const auto [at, is_new] =
        names_.try_emplace(std::string(text), static_cast<std::uint32_t>(to_.names.size()));
    if (is_new) to_.names.emplace_back(text);
    return at->second;
  }

  std::uint16_t track(const DeviceActivities& device, const DeviceActivity& activity,
                      Stream stream) {
    std::string label = "stream " + device.streams[activity.stream];
    if (devices_.size() > 1) label = "device " + std::to_string(device.device) + " " + label;
    return track(std::move(label), stream);
  }

  std::uint16_t track(std::string label, Stream stream) {
    const auto key = std::pair(label, stream);
    const auto at = tracks_.find(key);
    if (at != tracks_.end() || to_.tracks.size() >= max_tracks)
      return at != tracks_.end() ? at->second : static_cast<std::uint16_t>(max_tracks - 1);
    const auto number = static_cast<std::uint16_t>(to_.tracks.size());
    to_.tracks.push_back({std::move(label), stream});
    return tracks_[key] = number;
  }

  void add(const DeviceActivities& device, const DeviceActivity& activity) {
    auto span = span_of(activity.window, activity.event);
    if (!span || activity.span_class == SpanClass::host) return;
    const auto known = collective_of_.find(activity.event);
    const ImportedCollective* collective = known == collective_of_.end() ? nullptr : known->second;
    span->span_class = activity.span_class;
    span->track = track(device, activity, stream_of(activity.span_class, collective));
    if (collective != nullptr && collective->kind) {
      span->operation = OperationId::of(to_.facts.size());
      to_.facts.push_back(facts_of(*collective, span->operation));
    }
    to_.spans.push_back(*span);
  }

  std::uint16_t host_track(std::uint32_t event) {
    const ImportedTrack& thread = from_.track_of(event);
    std::string label = "process " + thread.process.text + " thread " + thread.thread.text;
    if (!thread.names.empty()) label += " " + thread.names.back();
    return track(std::move(label), Stream::host);
  }

  void add_host(std::uint32_t event) {
    auto span = span_of({{from_.events.start_ns[event]}, {from_.events.end_ns(event)}}, event);
    if (!span) return;
    span->span_class = host_class(from_, event);
    span->track = host_track(event);
    to_.spans.push_back(*span);
  }

  void add_steps() {
    for (const ProfilerStep& step : profiler_steps(from_)) {
      auto span = span_of(step.window, step.event);
      if (!span) continue;
      span->span_class = SpanClass::annotation;
      to_.spans.push_back(*span);
    }
  }

  const ImportedTrace& from_;
  std::vector<DeviceActivities> devices_;
  std::vector<ImportedCollective> collectives_;
  std::unordered_map<std::uint32_t, const ImportedCollective*> collective_of_;
  Trace to_;
  std::int64_t start_ns_ = 0;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::map<std::pair<std::string, Stream>, std::uint16_t> tracks_;
};

}  // namespace

Trace device_spans(const ImportedTrace& trace) {
  return Conversion(trace, device_activities(trace)).of_devices();
}

std::vector<Trace> rank_traces(const ImportedTrace& trace) {
  std::vector<Trace> traces;
  for (DeviceActivities& device : device_activities(trace)) {
    const std::int64_t ordinal = device.device;
    traces.push_back(Conversion(trace, {std::move(device)}).of_devices());
    if (ordinal >= 0 && ordinal < max_ordinal) traces.back().local_rank = static_cast<int>(ordinal);
  }
  if (traces.empty()) traces.push_back(Conversion(trace, {}).of_host());
  return traces;
}

std::vector<int> ranks_of(const std::vector<std::optional<int>>& said) {
  std::vector<int> ranks;
  std::set<int> taken;
  for (const std::optional<int>& rank : said) {
    if (rank && *rank < max_ordinal && taken.insert(*rank).second) ranks.push_back(*rank);
  }
  if (ranks.size() == said.size()) return ranks;
  ranks.clear();
  for (std::size_t i = 0; i < said.size(); ++i) ranks.push_back(static_cast<int>(i));
  return ranks;
}

std::vector<ImportedRank> run_ranks(const std::vector<ImportedTrace>& traces) {
  std::vector<ImportedRank> run;
  for (std::size_t i = 0; i < traces.size(); ++i)
    for (Trace& spans : rank_traces(traces[i])) run.push_back({i, std::move(spans)});
  std::vector<std::optional<int>> said;
  for (const ImportedRank& rank : run) said.emplace_back(rank.spans.rank);
  const std::vector<int> ranks = ranks_of(said);
  int world = static_cast<int>(run.size());
  for (std::size_t i = 0; i < run.size(); ++i) {
    run[i].spans.rank = ranks[i];
    world = std::max({world, run[i].spans.world, ranks[i] + 1});
  }
  for (ImportedRank& rank : run) rank.spans.world = world;
  return run;
}

}  // namespace shardscope
