#include "gui/timeline/span_links.h"

#include <algorithm>
#include <optional>

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
    auto there = place_of(data, place.source, LaneItems::events, other);
    if (!there) {
      if (const auto span = span_of_event(rank, other))
        there = place_of(data, place.source, LaneItems::spans, *span);
    }
    if (there) links.push_back(*there);
  }
}

}  // namespace

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
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

}  // namespace shardscope::gui
