#include "gui/timeline/flow_lines.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "gui/timeline/span_links.h"
#include "traces/launches.h"

namespace shardscope::gui {
namespace {

/// Where each span and each event of a rank is drawn.
class Places {
 public:
  Places(const TimelineRank& rank, std::size_t source) : source_(source) {
    of_spans_.resize(rank.trace->spans.size());
    if (rank.imported) of_events_.resize(rank.imported->events.size());
    for (std::size_t track = 0; track < rank.tracks.size(); ++track) {
      const LaneItems items = rank.tracks[track].items;
      if (items == LaneItems::sections) continue;
      for (std::size_t lane = 0; lane < rank.tracks[track].lanes.size(); ++lane)
        add(rank.tracks[track].lanes[lane], track, lane,
            items == LaneItems::spans ? of_spans_ : of_events_);
    }
  }

  std::optional<SpanPlace> of_span(std::size_t span) const { return at(of_spans_, span); }
  std::optional<SpanPlace> of_event(std::size_t event) const { return at(of_events_, event); }

 private:
  struct Place {
    static constexpr std::uint32_t none = UINT32_MAX;
    std::uint32_t track = none, lane = 0, index = 0;
  };

  static void add(const SpanLane& lane, std::size_t track, std::size_t number,
                  std::vector<Place>& places) {
    for (std::size_t i = 0; i < lane.size(); ++i)
      if (lane.id(i) < places.size())
        places[lane.id(i)] = {static_cast<std::uint32_t>(track), static_cast<std::uint32_t>(number),
                              static_cast<std::uint32_t>(i)};
  }

  std::optional<SpanPlace> at(const std::vector<Place>& places, std::size_t id) const {
    if (id >= places.size() || places[id].track == Place::none) return std::nullopt;
    return SpanPlace{source_, places[id].track, places[id].lane, places[id].index};
  }

  std::size_t source_;
  std::vector<Place> of_spans_, of_events_;
};

class FlowLines {
 public:
  FlowLines(const TimelineData& data, const std::stop_token& stop) : data_(data), stop_(stop) {
    for (std::size_t source = 0; source < data.sources.size(); ++source)
      places_.emplace_back(*data.sources[source], source);
  }

  std::vector<FlowLine> run() {
    for (std::size_t source = 0; source < data_.sources.size() && !stop_.stop_requested();
         ++source) {
      if (data_.sources[source]->imported)
        add_imported(source);
      else
        add_launches(source);
    }
    add_peers();
    std::sort(lines_.begin(), lines_.end(), [](const FlowLine& a, const FlowLine& b) {
      return std::tuple(a.time, a.from, a.to) < std::tuple(b.time, b.from, b.to);
    });
    return std::move(lines_);
  }

 private:
  void add(std::optional<SpanPlace> from, std::optional<SpanPlace> to, bool is_peer = false) {
    if (!from || !to || from == to || lines_.size() >= most_flow_lines) return;
    if (!is_peer && axis_range(data_, *from).begin > axis_range(data_, *to).begin)
      std::swap(from, to);
    lines_.push_back({*from, *to, axis_range(data_, *to).begin, is_peer});
  }

  void add_launches(std::size_t source) {
    const Trace& trace = *data_.sources[source]->trace;
    const LaunchTable launches(trace);
    for (std::size_t span = 0; span < trace.spans.size(); ++span)
      if (const std::size_t launched = launches.correlation_of_host(span); launched != 0)
        add(places_[source].of_span(span), places_[source].of_span(launched - 1));
  }

  /// The place of an event of a file: on its thread, else as the span that was made of it.
  std::optional<SpanPlace> place_of(std::size_t source, std::uint32_t event) const {
    if (auto place = places_[source].of_event(event)) return place;
    const TimelineRank& rank = *data_.sources[source];
    const EventColumns& events = rank.imported->events;
    const Made key{events.start_ns[event] + rank.event_offset_ns, events.duration_ns[event], 0};
    for (auto made = std::lower_bound(made_.begin(), made_.end(), key); made != made_.end();
         ++made) {
      if (std::get<0>(*made) != std::get<0>(key) || std::get<1>(*made) != std::get<1>(key)) break;
      const std::uint32_t span = std::get<2>(*made);
      if (rank.trace->name(rank.trace->spans[span]) == rank.imported->name_of(event))
        return places_[source].of_span(span);
    }
    return std::nullopt;
  }

  void add_imported(std::size_t source) {
    const TimelineRank& rank = *data_.sources[source];
    const ImportedTrace& trace = *rank.imported;
    made_.clear();
    for (std::uint32_t i = 0; i < rank.trace->spans.size(); ++i)
      made_.emplace_back(rank.trace->spans[i].start.ns, rank.trace->spans[i].duration.ns, i);
    std::sort(made_.begin(), made_.end());
    std::unordered_map<std::uint32_t, std::uint32_t> calls;  // by correlation
    for (const std::uint32_t event : trace.by_track)
      if (trace.events.link[event] != 0 && trace.track_of(event).kind == TrackKind::thread)
        calls.try_emplace(trace.events.link[event], event);
    for (const std::uint32_t event : trace.by_track) {
      if (trace.track_of(event).kind != TrackKind::stream || stop_.stop_requested()) continue;
      const auto call = calls.find(trace.events.link[event]);
      if (trace.events.link[event] != 0 && call != calls.end())
        add(place_of(source, call->second), place_of(source, event));
    }
    add_flow_events(source);
  }

  /// All but those that say again which call launched what.
  void add_flow_events(std::size_t source) {
    const ImportedTrace& trace = *data_.sources[source]->imported;
    using Flow = std::pair<std::uint16_t, std::uint32_t>;  // numbers count within a category
    std::map<Flow, std::uint32_t> begun;
    const EventColumns& events = trace.events;
    const auto is_flow = [&](std::uint32_t event, char phase) {
      if (events.phase[event] != phase || events.link[event] == 0) return false;
      const std::string_view category = trace.category_of(event);
      return category != "ac2g" && category != "async_cpu_to_gpu";
    };
    for (std::uint32_t i = 0; i < events.size(); ++i)
      if (is_flow(i, 's')) begun[{events.category[i], events.link[i]}] = i;
    for (std::uint32_t i = 0; i < events.size() && !begun.empty(); ++i) {
      if (!is_flow(i, 'f')) continue;
      const auto from = begun.find({events.category[i], events.link[i]});
      if (from == begun.end()) continue;
      const auto producer =
          span_around(trace, events.track[from->second], events.start_ns[from->second]);
      const auto consumer = span_around(trace, events.track[i], events.start_ns[i]);
      if (producer && consumer) add(place_of(source, *producer), place_of(source, *consumer));
    }
  }

  /// A side's ranks run the same collective as often: its k-th run of a step on each rank.
  void add_peers() {
    using Run = std::tuple<OperationId, std::int32_t, int>;
    std::map<std::tuple<const Scenario*, SideKind>, std::map<Run, SpanPlace>> before;
    for (std::size_t source = 0; source < data_.sources.size(); ++source) {
      const TimelineRank& rank = *data_.sources[source];
      if (rank.imported || stop_.stop_requested()) continue;
      auto& of_side = before[{rank.scenario.get(), rank.side}];
      std::map<std::pair<OperationId, std::int32_t>, int> runs;
      std::map<Run, SpanPlace> own;
      for (std::size_t i = 0; i < rank.trace->spans.size(); ++i) {
        const Span& span = rank.trace->spans[i];
        if (span.span_class != SpanClass::communication || !span.operation) continue;
        const Run run{span.operation, span.step, runs[{span.operation, span.step}]++};
        const auto place = places_[source].of_span(i);
        if (!place) continue;
        if (const auto there = of_side.find(run); there != of_side.end())
          add(there->second, place, true);
        own.emplace(run, *place);
      }
      of_side = std::move(own);
    }
  }

  using Made = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;  ///< begin, duration, span
  const TimelineData& data_;
  const std::stop_token& stop_;
  std::vector<Places> places_;
  std::vector<Made> made_;  ///< spans of the source that is being read
  std::vector<FlowLine> lines_;
};

}  // namespace

std::vector<FlowLine> flow_lines(const TimelineData& data, const std::stop_token& stop) {
  return FlowLines(data, stop).run();
}

std::vector<FlowLine> flows_in(const std::vector<FlowLine>& lines, TimeRange range,
                               std::size_t most) {
  const auto before = [](const FlowLine& line, double time) { return line.time < time; };
  const auto from = std::lower_bound(lines.begin(), lines.end(), range.begin, before);
  const auto to = std::lower_bound(from, lines.end(), range.end, before);
  const auto count = static_cast<std::size_t>(to - from);
  most = std::max<std::size_t>(1, most);
  const std::size_t step = std::max<std::size_t>(1, (count + most - 1) / most);
  std::vector<FlowLine> result;
  for (std::size_t i = 0; i < count; i += step)
    result.push_back(*(from + static_cast<std::ptrdiff_t>(i)));
  return result;
}

}  // namespace shardscope::gui
