#include "gui/timeline/timeline_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "gui/data/predicted_place.h"
#include "gui/data/side_times.h"

namespace shardscope::gui {
namespace {

class Preparation {
 public:
  Preparation(const TimelineRequest& request, const std::stop_token& stop)
      : request_(request), stop_(stop) {}

  TimelineData run() {
    for (const ScenarioPointer& scenario : {request_.a, request_.b})
      if (scenario) add_blocks(scenario);
    if (request_.ghost) {
      const Side* side = request_.ghost->side(SideKind::predicted);
      if (side != nullptr && side->has_trace())
        data_.ghost = source(request_.ghost, SideKind::predicted, 0);
    }
    return std::move(data_);
  }

 private:
  static std::size_t ranks_of(const Scenario& scenario, SideKind kind) {
    const Side* side = scenario.side(kind);
    return side == nullptr ? 0 : side->ranks.size();
  }

  void add_blocks(const ScenarioPointer& scenario) {
    const std::size_t predicted = ranks_of(*scenario, SideKind::predicted);
    const std::size_t profiled = ranks_of(*scenario, SideKind::profiled);
    std::vector<bool> is_shown(predicted, false);
    for (std::size_t rank = 0; rank < profiled; ++rank) {
      std::optional<std::size_t> beside;
      if (predicted > 0) is_shown[*(beside = predicted_place(*scenario, rank))] = true;
      add_block(scenario, beside, rank, rank == 0);
    }
    // What nobody profiled: other stages of a pipeline.
    for (std::size_t place = 0; place < predicted; ++place)
      if (!is_shown[place]) add_block(scenario, place, {}, profiled == 0 && place == 0);
  }

  void add_block(const ScenarioPointer& scenario, std::optional<std::size_t> predicted,
                 std::optional<std::size_t> profiled, bool is_first) {
    if (stop_.stop_requested()) return;
    TimelineBlock block{.is_first = is_first};
    if (predicted) block.predicted = source(scenario, SideKind::predicted, *predicted);
    if (profiled) block.profiled = source(scenario, SideKind::profiled, *profiled);
    if (data_.blocks.size() < most_memory_blocks) add_memory(scenario, profiled.value_or(0), block);
    const Trace& named =
        *data_.sources[block.profiled.value_or(block.predicted.value_or(0))]->trace;
    block.label = fmt::format("{}, rank {}", scenario->label, named.rank);
    data_.blocks.push_back(std::move(block));
  }

  void add_memory(const ScenarioPointer& scenario, std::size_t rank, TimelineBlock& block) {
    const MemoryPictureRequest axis{.a = request_.a, .mode = request_.mode, .step = request_.step};
    if (block.predicted) {
      // Blocks below one prediction share its curve.
      const bool is_shared = !block.is_first && data_.blocks.back().predicted == block.predicted;
      block.predicted_memory = is_shared ? data_.blocks.back().predicted_memory
                                         : memory_track(scenario, SideKind::predicted,
                                                        data_.sources[*block.predicted]->rank, axis,
                                                        request_.known_memory);
    }
    if (block.profiled)
      block.profiled_memory =
          memory_track(scenario, SideKind::profiled, rank, axis, request_.known_memory);
  }

  std::size_t source(const ScenarioPointer& scenario, SideKind side, std::size_t rank) {
    const auto same = [&](const TimelineRankPointer& other) {
      return other->scenario == scenario && other->side == side && other->rank == rank;
    };
    const auto there = std::find_if(data_.sources.begin(), data_.sources.end(), same);
    if (there != data_.sources.end())
      return static_cast<std::size_t>(there - data_.sources.begin());
    const auto known = std::find_if(request_.known.begin(), request_.known.end(), same);
    data_.sources.push_back(
        known != request_.known.end()
            ? *known
            : std::make_shared<const TimelineRank>(prepare_rank(scenario, side, rank, stop_)));
    data_.maps.push_back(
        time_map(*scenario, side, rank, request_.mode, request_.a.get(), request_.step));
    return data_.sources.size() - 1;
  }

  const TimelineRequest& request_;
  const std::stop_token& stop_;
  TimelineData data_;
};

/// Every lane whose items are of the kind.
template <class Visit>
void for_each_lane(const TimelineRank& rank, LaneItems items, Visit visit) {
  for (std::size_t track = 0; track < rank.tracks.size(); ++track) {
    if (rank.tracks[track].items != items) continue;
    for (std::size_t lane = 0; lane < rank.tracks[track].lanes.size(); ++lane)
      visit(track, lane, rank.tracks[track].lanes[lane]);
  }
}

}  // namespace

Bytes TimelineBlock::highest_memory() const {
  Bytes highest{1};
  for (const MemoryTrackPointer& track : {predicted_memory, profiled_memory})
    if (track) highest = std::max(highest, track->highest);
  return highest;
}

TimeRange TimelineData::axis_range(std::size_t source, std::int64_t begin, std::int64_t end) const {
  const TimeMap& map = maps[source];
  return {.begin = map.axis_of(static_cast<double>(begin)),
          .end = map.axis_of(static_cast<double>(end))};
}

TimelineData prepare_timeline(const TimelineRequest& request, const std::stop_token& stop) {
  return Preparation(request, stop).run();
}

const SpanLane& lane_of(const TimelineData& data, const SpanPlace& place) {
  return data.sources[place.source]->tracks[place.track].lanes[place.lane];
}

TimeRange axis_range(const TimelineData& data, const SpanPlace& place) {
  const SpanLane& lane = lane_of(data, place);
  return data.axis_range(place.source, lane.begin(place.index), lane.end(place.index));
}

std::string_view name_of(const TimelineData& data, const SpanPlace& place) {
  const TimelineRank& rank = *data.sources[place.source];
  return rank.name_of(rank.tracks[place.track].items, lane_of(data, place).id(place.index));
}

std::optional<std::size_t> span_of(const TimelineData& data, const SpanPlace& place) {
  if (data.sources[place.source]->tracks[place.track].items != LaneItems::spans)
    return std::nullopt;
  return lane_of(data, place).id(place.index);
}

OperationId operation_of(const TimelineData& data, const SpanPlace& place) {
  const auto span = span_of(data, place);
  return span ? data.sources[place.source]->operation_of(*span) : OperationId{};
}

std::optional<SpanPlace> place_of(const TimelineData& data, std::size_t source, LaneItems items,
                                  std::uint32_t id) {
  const TimelineRank& rank = *data.sources[source];
  std::int64_t begin = 0;
  if (items == LaneItems::spans) {
    if (id >= rank.trace->spans.size()) return std::nullopt;
    begin = rank.trace->spans[id].start.ns;
  } else if (items == LaneItems::events) {
    if (!rank.imported || id >= rank.imported->events.size()) return std::nullopt;
    begin = rank.imported->events.start_ns[id] + rank.event_offset_ns;
  }
  std::optional<SpanPlace> found;
  for_each_lane(rank, items, [&](std::size_t track, std::size_t lane, const SpanLane& spans) {
    if (found) return;
    // Several spans may begin at once, those without duration first.
    for (std::size_t i = spans.first_beginning_from(begin); i < spans.size(); ++i) {
      if (spans.begin(i) != begin) break;
      if (spans.id(i) == id) found = SpanPlace{source, track, lane, i};
    }
  });
  return found;
}

std::optional<SpanPlace> place_of_operation(const TimelineData& data, std::size_t source,
                                            OperationId operation, double time) {
  const TimelineRank& rank = *data.sources[source];
  if (!operation) return std::nullopt;
  std::optional<std::tuple<bool, double, std::size_t>> best;
  const auto consider = [&](std::size_t index) {
    const Span& span = rank.trace->spans[index];
    const TimeRange range = data.axis_range(source, span.start.ns, span.end().ns);
    const double distance = std::abs(range.middle() - time);
    const std::tuple candidate(!is_on_device(*rank.trace, span), distance, index);
    if (!best || candidate < *best) best = candidate;
  };
  if (rank.imported) {
    for (const auto& [span, of] : rank.matched)
      if (of == operation) consider(span);
  } else {
    for (std::size_t i = 0; i < rank.trace->spans.size(); ++i)
      if (rank.trace->spans[i].operation == operation) consider(i);
  }
  if (!best) return std::nullopt;
  return place_of(data, source, LaneItems::spans, static_cast<std::uint32_t>(std::get<2>(*best)));
}

}  // namespace shardscope::gui
