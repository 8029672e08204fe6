#include "gui/timeline/timeline_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "gui/data/predicted_place.h"

namespace shardscope::gui {
namespace {

const OperationFacts* facts_in(const Trace& trace, OperationId operation) {
  if (!operation) return nullptr;
  // Facts come by ascending id where we wrote them.
  const auto at = std::lower_bound(
      trace.facts.begin(), trace.facts.end(), operation,
      [](const OperationFacts& facts, OperationId id) { return facts.operation < id; });
  if (at != trace.facts.end() && at->operation == operation) return &*at;
  const auto any = std::find_if(
      trace.facts.begin(), trace.facts.end(),
      [operation](const OperationFacts& facts) { return facts.operation == operation; });
  return any == trace.facts.end() ? nullptr : &*any;
}

/// The matched spans of the imported side's rank, on the clock of its trace.
std::vector<std::pair<std::uint32_t, OperationId>> matched_spans(const Scenario& scenario,
                                                                 std::size_t rank,
                                                                 const Trace& trace) {
  std::vector<std::pair<std::uint32_t, OperationId>> result;
  const bool is_predicted = scenario.predicted && scenario.predicted->has_trace();
  if (!scenario.match || !is_predicted || rank >= scenario.match->matched.size()) return result;
  const auto& matched = scenario.match->matched[rank];
  if (!matched) return result;
  const std::int64_t offset = matched->base_ns - trace.base_ns;
  std::map<std::pair<std::int64_t, std::int64_t>, OperationId> by_time;
  for (const Span& span : matched->spans)
    by_time.emplace(std::pair(span.start.ns + offset, span.duration.ns), span.operation);
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (span.span_class > SpanClass::copy) continue;
    const auto same = by_time.find({span.start.ns, span.duration.ns});
    if (same != by_time.end()) result.emplace_back(static_cast<std::uint32_t>(i), same->second);
  }
  return result;
}

std::string stream_label(const Track& track) {
  const std::string_view stream = name_of(track.stream);
  if (track.name.empty() || track.name == stream) return std::string(stream);
  // A stream of an imported trace is two tracks where it computes and copies.
  const bool is_number = track.name.find("stream ") != std::string::npos;
  return is_number ? fmt::format("{}, {}", track.name, stream) : track.name;
}

class RankBuilder {
 public:
  RankBuilder(TimelineRank& rank, const std::stop_token& stop)
      : rank_(rank), facts_(*rank.trace), stop_(stop) {
    has_device_ = std::any_of(rank.trace->spans.begin(), rank.trace->spans.end(),
                              [&](const Span& span) { return is_on_device(*rank.trace, span); });
  }

  void build() {
    add_sections();
    add_matched_tracks();
    add_tracks();
    sort_tracks();
    if (rank_.imported && has_device_ && !stop_.stop_requested()) add_threads();
    if (!stop_.stop_requested()) rank_.coverage = Coverage(*rank_.trace);
  }

 private:
  const OperationFacts* facts_of(std::size_t span) const {
    if (!rank_.matched.empty()) return rank_.facts_of(rank_.operation_of(span));
    return facts_.find(rank_.trace->spans[span].operation);
  }

  SpanColour colour_of_span(std::size_t index) const {
    const Span& span = rank_.trace->spans[index];
    if (span.span_class == SpanClass::host || span.span_class == SpanClass::annotation)
      return colour_of(span.span_class);
    const OperationFacts* facts = facts_of(index);
    // A collective that was only recognised by its kernel has facts of its own trace.
    if (facts == nullptr) facts = facts_.find(span.operation);
    return facts == nullptr ? colour_of(span.span_class) : colour_of(facts->kind, facts->phase);
  }

  /// Compute of all streams by begin.
  std::vector<std::size_t> compute_by_begin() const {
    std::vector<std::size_t> spans;
    for (std::size_t i = 0; i < rank_.trace->spans.size(); ++i) {
      // Without a device operators lie on the host's threads, within one another: only those that
      // are known to be an operation of the schedule say what phase it is.
      const bool counts = has_device_ ? is_on_device(*rank_.trace, rank_.trace->spans[i])
                                      : rank_.operation_of(i).valid();
      if (rank_.trace->spans[i].span_class == SpanClass::compute && counts) spans.push_back(i);
    }
    std::stable_sort(spans.begin(), spans.end(), [&](std::size_t a, std::size_t b) {
      return rank_.trace->spans[a].start < rank_.trace->spans[b].start;
    });
    return spans;
  }

  static TimelineSection phase_of(const OperationFacts& facts, bool many_micro_batches) {
    std::string name(name_of(facts.phase));
    if (many_micro_batches && facts.phase != Phase::optimizer)
      name += fmt::format(" {}", facts.micro_batch + 1);
    return {.name = std::move(name), .colour = colour_of(OperationKind::compute, facts.phase)};
  }

  static TimelineSection unit_of(const OperationFacts& facts) {
    return {.name = facts.unit.empty() ? "(root)" : facts.unit,
            .unit = facts.unit,
            .colour = colour_of(OperationKind::compute, facts.phase)};
  }

  void add_sections() {
    const std::vector<std::size_t> spans = compute_by_begin();
    bool many_micro_batches = false, has_units = false, has_phases = false;
    for (const std::size_t span : spans) {
      const OperationFacts* facts = facts_of(span);
      if (facts == nullptr) continue;
      many_micro_batches |= facts->micro_batch > 0;
      has_units |= !facts->unit.empty();
      has_phases |= facts->phase != Phase::other;
    }
    if (has_phases)
      add_section_track(TrackGroup::phases, "phase", spans, [&](const OperationFacts& facts) {
        return phase_of(facts, many_micro_batches);
      });
    if (has_units) add_section_track(TrackGroup::units, "unit", spans, unit_of);
  }

  template <class SectionOf>
  void add_section_track(TrackGroup group, std::string label, const std::vector<std::size_t>& spans,
                         SectionOf section_of) {
    TimelineTrack track{.label = std::move(label), .group = group, .items = LaneItems::sections};
    track.lanes.emplace_back();
    std::optional<TimelineSection> open;
    std::int64_t begin = 0, end = 0;
    const auto close = [&] {
      if (!open) return;
      rank_.sections.push_back(*open);
      track.lanes[0].add(begin, end, static_cast<std::uint32_t>(rank_.sections.size() - 1),
                         open->colour);
    };
    for (const std::size_t index : spans) {
      const OperationFacts* facts = facts_of(index);
      if (facts == nullptr) continue;
      const Span& span = rank_.trace->spans[index];
      TimelineSection section = section_of(*facts);
      if (open != section) {
        close();
        open = std::move(section);
        begin = span.start.ns;
        end = span.end().ns;
      }
      end = std::max(end, span.end().ns);
    }
    close();
    track.lanes[0].finish();
    rank_.tracks.push_back(std::move(track));
  }

  void add_tracks() {
    const Trace& trace = *rank_.trace;
    std::vector<std::vector<LaneItem>> items(trace.tracks.size());
    for (std::size_t i = 0; i < trace.spans.size() && !stop_.stop_requested(); ++i) {
      const Span& span = trace.spans[i];
      if (span.track < items.size())
        items[span.track].push_back({.begin = span.start.ns,
                                     .end = span.end().ns,
                                     .id = static_cast<std::uint32_t>(i),
                                     .colour = colour_of_span(i)});
    }
    std::vector<TimelineTrack> tracks;
    for (std::size_t t = 0; t < items.size(); ++t) {
      // The host of an imported device trace is there thread by thread, with all its calls.
      const bool is_elsewhere =
          rank_.imported && has_device_ && trace.tracks[t].stream == Stream::host;
      if (items[t].empty() || is_elsewhere) continue;
      const bool is_host = trace.tracks[t].stream == Stream::host;
      tracks.push_back({.label = stream_label(trace.tracks[t]),
                        .group = is_host ? TrackGroup::host : TrackGroup::streams,
                        .stream = trace.tracks[t].stream,
                        .lanes = lay_on_lanes(items[t])});
      items[t] = {};
    }
    std::move(tracks.begin(), tracks.end(), std::back_inserter(rank_.tracks));
  }

  void sort_tracks() {
    std::stable_sort(rank_.tracks.begin(), rank_.tracks.end(), [](const auto& a, const auto& b) {
      return std::pair(a.group, a.stream) < std::pair(b.group, b.stream);
    });
  }

  /// Without a device nothing tells streams apart but the prediction: what was matched with it lies
  /// on the stream that was foreseen, to be seen below it.
  void add_matched_tracks() {
    if (has_device_ || rank_.matched.empty()) return;
    const Trace& like = *rank_.scenario->predicted->ranks[rank_.predicted_rank()];
    std::map<OperationId, std::uint16_t> track_of;
    for (const Span& span : like.spans)
      if (span.operation && is_on_device(like, span)) track_of.emplace(span.operation, span.track);
    std::map<std::uint16_t, std::vector<LaneItem>> items;
    for (const auto& [index, operation] : rank_.matched) {
      const auto track = track_of.find(operation);
      if (track == track_of.end()) continue;
      const Span& span = rank_.trace->spans[index];
      items[track->second].push_back({.begin = span.start.ns,
                                      .end = span.end().ns,
                                      .id = index,
                                      .colour = colour_of_span(index)});
    }
    for (auto& [track, of_track] : items) {
      std::stable_sort(of_track.begin(), of_track.end(),
                       [](const LaneItem& a, const LaneItem& b) { return a.begin < b.begin; });
      rank_.tracks.push_back({.label = stream_label(like.tracks[track]),
                              .group = TrackGroup::streams,
                              .stream = like.tracks[track].stream,
                              .lanes = lay_on_lanes(of_track)});
    }
  }

  void add_threads() {
    const ImportedTrace& from = *rank_.imported;
    std::map<std::uint32_t, std::vector<SpanLane>> lanes;
    for (const std::uint32_t event : from.by_track) {
      const std::uint32_t track = from.events.track[event];
      if (from.tracks[track].kind == TrackKind::stream) continue;
      std::vector<SpanLane>& of_track = lanes[track];
      const std::size_t lane = std::min<std::size_t>(from.events.lane[event], most_lanes - 1);
      if (of_track.size() <= lane) of_track.resize(lane + 1);
      of_track[lane].add(from.events.start_ns[event] + rank_.event_offset_ns,
                         from.events.end_ns(event) + rank_.event_offset_ns, event,
                         colour_of(from.events.span_class[event]));
    }
    for (auto& [track, of_track] : lanes) {
      for (SpanLane& lane : of_track) lane.finish();
      rank_.tracks.push_back({.label = thread_label(from.tracks[track]),
                              .group = TrackGroup::threads,
                              .items = LaneItems::events,
                              .lanes = std::move(of_track)});
    }
  }

  static std::string thread_label(const ImportedTrack& track) {
    if (!track.names.empty()) return track.names.back();
    return fmt::format("{} {}", track.kind == TrackKind::thread ? "thread" : "annotations",
                       track.thread.text);
  }

  TimelineRank& rank_;
  FactsTable facts_;
  const std::stop_token& stop_;
  bool has_device_ = false;
};

}  // namespace

OperationId TimelineRank::operation_of(std::size_t span) const {
  if (!imported) return trace->spans[span].operation;
  const auto at =
      std::lower_bound(matched.begin(), matched.end(), span,
                       [](const auto& pair, std::size_t index) { return pair.first < index; });
  return at != matched.end() && at->first == span ? at->second : OperationId{};
}

std::string_view TimelineRank::name_of(LaneItems items, std::uint32_t id) const {
  if (items == LaneItems::spans) return trace->name(trace->spans[id]);
  if (items == LaneItems::events) return imported->name_of(id);
  return sections[id].name;
}

const OperationFacts* TimelineRank::facts_of(OperationId operation) const {
  if (!imported) return facts_in(*trace, operation);
  const Side* predicted = scenario->side(SideKind::predicted);
  if (predicted == nullptr || predicted->ranks.empty()) return nullptr;
  return facts_in(*predicted->ranks[predicted_rank()], operation);
}

std::size_t TimelineRank::predicted_rank() const {
  return side == SideKind::predicted ? rank : predicted_place(*scenario, rank);
}

TimelineRank prepare_rank(const ScenarioPointer& scenario, SideKind side, std::size_t rank,
                          const std::stop_token& stop) {
  const Side& from = *scenario->side(side);
  TimelineRank result{.scenario = scenario, .side = side, .rank = rank, .trace = from.ranks[rank]};
  if (rank < from.imported.size() && from.imported[rank]) {
    result.imported = from.imported[rank];
    result.event_offset_ns = result.imported->base_ns - result.trace->base_ns;
    result.matched = matched_spans(*scenario, rank, *result.trace);
  }
  RankBuilder(result, stop).build();
  return result;
}

}  // namespace shardscope::gui
