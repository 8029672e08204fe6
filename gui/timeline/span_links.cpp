#include "gui/timeline/span_links.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace shardscope::gui {
namespace {

/// The event that the span was made of, by its begin and duration; none: of a trace of our own.
std::optional<std::uint32_t> event_of(const TimelineRank& rank, std::size_t span) {
  if (!rank.imported) return std::nullopt;
  const ImportedTrace& from = *rank.imported;
  const std::int64_t begin = rank.trace->spans[span].start.ns - rank.event_offset_ns;
  const std::int64_t duration = rank.trace->spans[span].duration.ns;
  for (const std::uint32_t event : from.by_track)
    if (from.events.start_ns[event] == begin && from.events.duration_ns[event] == duration &&
        from.name_of(event) == rank.trace->name(rank.trace->spans[span]))
      return event;
  return std::nullopt;
}

/// The span of the device that was made of the event.
std::optional<std::uint32_t> span_of_event(const TimelineRank& rank, std::uint32_t event) {
  const std::int64_t begin = rank.imported->events.start_ns[event] + rank.event_offset_ns;
  const auto& spans = rank.trace->spans;
  for (std::size_t i = 0; i < spans.size(); ++i)
    if (spans[i].start.ns == begin &&
        spans[i].duration.ns == rank.imported->events.duration_ns[event] &&
        rank.trace->name(spans[i]) == rank.imported->name_of(event))
      return static_cast<std::uint32_t>(i);
  return std::nullopt;
}

/// Where an event of the file is drawn: on its thread, else as the span that was made of it.
std::optional<SpanPlace> place_of_event(const TimelineData& data, std::size_t source,
                                        std::uint32_t event) {
  if (auto there = place_of(data, source, LaneItems::events, event)) return there;
  const auto span = span_of_event(*data.sources[source], event);
  return span ? place_of(data, source, LaneItems::spans, *span) : std::nullopt;
}

void add_launches(const TimelineData& data, const SpanPlace& place, std::vector<SpanPlace>& links) {
  const TimelineRank& rank = *data.sources[place.source];
  if (!rank.imported) return;
  const LaneItems items = rank.tracks[place.track].items;
  if (items == LaneItems::sections) return;
  const std::uint32_t id = lane_of(data, place).id(place.index);
  const auto event = items == LaneItems::events ? std::optional(id) : event_of(rank, id);
  if (!event || rank.imported->events.link[*event] == 0) return;
  for (const std::uint32_t other : rank.imported->by_track) {
    if (other == *event || rank.imported->events.link[other] != rank.imported->events.link[*event])
      continue;
    if (const auto there = place_of_event(data, place.source, other)) links.push_back(*there);
  }
}

bool is_flow(char phase) { return phase == 's' || phase == 't' || phase == 'f'; }

/// What the flows that begin or end in the event lead to: spans around their other ends.
std::vector<std::uint32_t> flow_partners(const ImportedTrace& from, std::uint32_t event) {
  using Flow = std::pair<std::uint16_t, std::uint32_t>;  // numbers count within a category
  std::vector<Flow> flows;
  const EventColumns& events = from.events;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (!is_flow(events.phase[i]) || events.link[i] == 0) continue;
    const bool is_inside = events.track[i] == events.track[event] &&
                           events.start_ns[i] >= events.start_ns[event] &&
                           events.start_ns[i] <= events.end_ns(event);
    if (is_inside && span_around(from, events.track[i], events.start_ns[i]) == event)
      flows.emplace_back(events.category[i], events.link[i]);
  }
  std::vector<std::uint32_t> partners;
  if (flows.empty()) return partners;
  std::sort(flows.begin(), flows.end());
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (!is_flow(events.phase[i])) continue;
    if (!std::binary_search(flows.begin(), flows.end(), Flow(events.category[i], events.link[i])))
      continue;
    const auto other = span_around(from, events.track[i], events.start_ns[i]);
    if (other && *other != event) partners.push_back(*other);
  }
  return partners;
}

void add_flows(const TimelineData& data, const SpanPlace& place, std::vector<SpanPlace>& links) {
  const TimelineRank& rank = *data.sources[place.source];
  const LaneItems items = rank.tracks[place.track].items;
  if (!rank.imported || items == LaneItems::sections) return;
  const std::uint32_t id = lane_of(data, place).id(place.index);
  const auto event = items == LaneItems::events ? std::optional(id) : event_of(rank, id);
  if (!event) return;
  for (const std::uint32_t partner : flow_partners(*rank.imported, *event))
    if (const auto there = place_of_event(data, place.source, partner)) links.push_back(*there);
}

}  // namespace

std::optional<std::uint32_t> span_around(const ImportedTrace& from, std::uint32_t track,
                                         std::int64_t time) {
  constexpr std::size_t most_looked_at = 10'000;  // spans before the time
  const auto behind =
      std::partition_point(from.by_track.begin(), from.by_track.end(), [&](std::uint32_t event) {
        return std::pair(from.events.track[event], from.events.start_ns[event]) <=
               std::pair(track, time);
      });
  std::size_t looked_at = 0;
  for (auto at = behind; at != from.by_track.begin() && looked_at < most_looked_at; ++looked_at) {
    --at;
    if (from.events.track[*at] != track) break;
    if (from.events.end_ns(*at) >= time) return *at;
  }
  return std::nullopt;
}

std::vector<SpanPlace> linked_spans(const TimelineData& data, const SpanPlace& place) {
  std::vector<SpanPlace> links{place};
  const OperationId operation = operation_of(data, place);
  const double time = axis_range(data, place).middle();
  for (std::size_t source = 0; operation && source < data.sources.size(); ++source) {
    if (source == place.source) continue;
    // Numbers of operations are of one schedule: those of another scenario mean something else.
    const bool is_same_run = data.sources[source]->scenario == data.sources[place.source]->scenario;
    if (!is_same_run) continue;
    if (const auto there = place_of_operation(data, source, operation, time))
      links.push_back(*there);
  }
  add_launches(data, place, links);
  add_flows(data, place, links);
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

}  // namespace shardscope::gui
