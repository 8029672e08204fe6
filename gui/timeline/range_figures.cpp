#include "gui/timeline/range_figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "traces/intervals.h"

namespace shardscope::gui {
namespace {

std::optional<Accounting> accounting_of(const TimelineData& data, std::optional<std::size_t> source,
                                        TimeRange range) {
  if (!source || data.sources[*source]->coverage.empty()) return std::nullopt;
  return data.sources[*source]->coverage.account(window_of(data, *source, range));
}

/// Sums by name over several ranks.
class OperationSums {
 public:
  OperationSums(const TimelineData& data, TimeRange range) : data_(data), range_(range) {}

  void add(std::size_t source, const std::stop_token& stop) {
    const TimelineRank& rank = *data_.sources[source];
    const TimeWindow window = window_of(data_, source, range_);
    // Names are few and spans many: strings are looked at once for each name.
    std::vector<OfName> by_name(rank.trace->names.size());
    if (!rank.matched.empty()) note_matched(rank);
    for (const TimelineTrack& track : rank.tracks) {
      if (track.group != TrackGroup::streams) continue;
      for (const SpanLane& lane : track.lanes) {
        if (stop.stop_requested()) return;
        if (rank.matched.empty())
          add_lane(rank, lane, window, by_name);
        else
          add_matched_lane(rank, lane, window);
      }
    }
    for (std::size_t name = 0; name < by_name.size(); ++name)
      if (by_name[name].count > 0) add_name(rank, rank.trace->names[name], by_name[name]);
  }

  std::map<std::string, RangeOperation> take() { return std::move(sums_); }

 private:
  struct OfName {
    Duration time;
    std::int64_t count = 0;
    SpanClass span_class = SpanClass::compute;
  };

  static void add_lane(const TimelineRank& rank, const SpanLane& lane, TimeWindow window,
                       std::vector<OfName>& by_name) {
    for (std::size_t i = lane.first_ending_after(window.begin.ns);
         i < lane.size() && lane.begin(i) < window.end.ns; ++i) {
      const Span& span = rank.trace->spans[lane.id(i)];
      OfName& sum = by_name[span.name];
      sum.time += clipped({.begin = span.start, .end = span.end()}, window).length();
      sum.span_class = span.span_class;
      ++sum.count;
    }
  }

  /// What the prediction calls its operations.
  void note_matched(const TimelineRank& rank) {
    predicted_names_.clear();
    const Trace& predicted = *rank.scenario->predicted->ranks[rank.predicted_rank()];
    for (const Span& span : predicted.spans)
      if (span.operation && is_on_device(predicted, span))
        predicted_names_.emplace(span.operation, predicted.name(span));
  }

  /// Spans that are an operation of the prediction count under its name, to stand beside it.
  void add_matched_lane(const TimelineRank& rank, const SpanLane& lane, TimeWindow window) {
    for (std::size_t i = lane.first_ending_after(window.begin.ns);
         i < lane.size() && lane.begin(i) < window.end.ns; ++i) {
      const Span& span = rank.trace->spans[lane.id(i)];
      const auto known = predicted_names_.find(rank.operation_of(lane.id(i)));
      const std::string_view name =
          known == predicted_names_.end() ? rank.trace->name(span) : known->second;
      add_name(rank, std::string(name),
               {.time = clipped({.begin = span.start, .end = span.end()}, window).length(),
                .count = 1,
                .span_class = span.span_class});
    }
  }

  void add_name(const TimelineRank& rank, const std::string& name, const OfName& sum) {
    RangeOperation& operation = sums_[name];
    operation.name = name;
    operation.span_class = sum.span_class;
    const bool is_predicted = rank.side == SideKind::predicted;
    (is_predicted ? operation.predicted : operation.profiled) += sum.time;
    (is_predicted ? operation.predicted_count : operation.profiled_count) += sum.count;
  }

  const TimelineData& data_;
  TimeRange range_;
  std::map<std::string, RangeOperation> sums_;
  std::map<OperationId, std::string_view> predicted_names_;
};

std::vector<RangeOperation> longest_operations(const TimelineData& data, TimeRange range,
                                               const std::stop_token& stop) {
  OperationSums sums(data, range);
  std::int64_t predicted = 0, profiled = 0;
  const ScenarioPointer& first = data.sources.front()->scenario;
  for (std::size_t source = 0; source < data.sources.size(); ++source) {
    if (data.sources[source]->scenario != first || source == data.ghost) continue;
    ++(data.sources[source]->side == SideKind::predicted ? predicted : profiled);
    sums.add(source, stop);
  }
  std::vector<RangeOperation> all;
  for (auto& [name, operation] : sums.take()) {
    operation.predicted.ns /= std::max<std::int64_t>(1, predicted);
    operation.profiled.ns /= std::max<std::int64_t>(1, profiled);
    all.push_back(std::move(operation));
  }
  const auto length = [](const RangeOperation& o) { return std::max(o.predicted, o.profiled); };
  std::stable_sort(all.begin(), all.end(),
                   [&](const auto& a, const auto& b) { return length(a) > length(b); });
  if (all.size() > most_range_operations) all.resize(most_range_operations);
  return all;
}

/// The collective of the source that covers most of the window.
std::optional<SpanPlace> longest_collective(const TimelineData& data, std::size_t source,
                                            TimeWindow window) {
  std::optional<std::pair<std::int64_t, SpanPlace>> best;
  const TimelineRank& rank = *data.sources[source];
  for (std::size_t track = 0; track < rank.tracks.size(); ++track) {
    if (rank.tracks[track].group != TrackGroup::streams) continue;
    for (std::size_t l = 0; l < rank.tracks[track].lanes.size(); ++l) {
      const SpanLane& lane = rank.tracks[track].lanes[l];
      for (std::size_t i = lane.first_ending_after(window.begin.ns);
           i < lane.size() && lane.begin(i) < window.end.ns; ++i) {
        if (!is_communication(lane.colour(i))) continue;
        const std::int64_t inside =
            std::min(lane.end(i), window.end.ns) - std::max(lane.begin(i), window.begin.ns);
        if (!best || inside > best->first) best = std::pair(inside, SpanPlace{source, track, l, i});
      }
    }
  }
  return best ? std::optional(best->second) : std::nullopt;
}

}  // namespace

TimeWindow window_of(const TimelineData& data, std::size_t source, TimeRange range) {
  const TimeMap& map = data.maps[source];
  return {.begin = {std::llround(map.clock_of(range.begin))},
          .end = {std::llround(map.clock_of(range.end))}};
}

RangeFigures range_figures(const TimelineData& data, TimeRange range, const std::stop_token& stop) {
  RangeFigures figures{.range = range};
  for (const TimelineBlock& block : data.blocks)
    figures.ranks.push_back({.label = block.label,
                             .predicted = accounting_of(data, block.predicted, range),
                             .profiled = accounting_of(data, block.profiled, range)});
  if (!data.sources.empty()) figures.operations = longest_operations(data, range, stop);
  return figures;
}

std::vector<ExposedStretch> longest_exposed(const TimelineData& data, TimeRange range,
                                            const std::stop_token& stop) {
  std::vector<ExposedStretch> all;
  for (std::size_t source = 0; source < data.sources.size(); ++source) {
    if (stop.stop_requested()) break;
    if (source == data.ghost) continue;
    const TimeWindow inside = window_of(data, source, range);
    for (const TimeWindow& window : data.sources[source]->coverage.exposed()) {
      const TimeWindow part = clipped(window, inside);
      if (part.length().ns > 0) all.push_back({.source = source, .window = part});
    }
  }
  const auto longer = [](const ExposedStretch& a, const ExposedStretch& b) {
    return std::tuple(b.window.length(), a.source, a.window.begin) <
           std::tuple(a.window.length(), b.source, b.window.begin);
  };
  const std::size_t kept = std::min(all.size(), most_exposed);
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    longer);
  all.resize(kept);
  for (ExposedStretch& stretch : all) {
    if (stop.stop_requested()) break;
    const auto place = longest_collective(data, stretch.source, stretch.window);
    if (!place) continue;
    stretch.place = *place;
    stretch.name = name_of(data, *place);
    const TimelineRank& rank = *data.sources[stretch.source];
    const auto span = span_of(data, *place);
    const OperationFacts* facts = rank.facts_of(rank.operation_of(*span));
    if (facts == nullptr) continue;
    stretch.unit = facts->unit;
    stretch.bytes = facts->bytes;
  }
  return all;
}

}  // namespace shardscope::gui
