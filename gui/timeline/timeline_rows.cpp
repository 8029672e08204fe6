#include "gui/timeline/timeline_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace shardscope::gui {
namespace {

constexpr double heading_height = 22;
constexpr double ribbon_share = 0.8;  ///< of a lane's height
constexpr double memory_share = 2.6;
constexpr double gap = 2;  ///< pixels below the last row of a track

class Layout {
 public:
  Layout(const TimelineData& data, const RowChoices& choices) : data_(data), choices_(choices) {}

  TimelineRows run() {
    for (std::size_t block = 0; block < data_.blocks.size(); ++block) add_block(block);
    if (data_.blocks.empty() && data_.ghost) add_ghost_alone();
    result_.height = top_;
    pin();
    return std::move(result_);
  }

 private:
  bool is_open(const std::string& key, bool at_first) const {
    return choices_.toggled.contains(key) != at_first;
  }

  void push(TimelineRow row, double height, double below = 0) {
    row.block = block_;
    row.top = top_;
    row.height = height;
    top_ += height + below;
    result_.rows.push_back(std::move(row));
  }

  void add_block(std::size_t number) {
    const TimelineBlock& block = data_.blocks[number];
    block_ = number;
    key_ = block.label + (number > 0 && same_label_before(number) ? " (B)" : "");
    const bool open = is_open(key_, block.is_first);
    push({.kind = RowKind::rank, .key = key_, .label = block.label, .is_open = open},
         heading_height);
    for (const SideKind side : {SideKind::predicted, SideKind::profiled}) add_ribbon(block, side);
    if (!open) return;
    for (const SideKind side : {SideKind::predicted, SideKind::profiled}) add_memory(block, side);
    add_group(block, TrackGroup::phases);
    add_group(block, TrackGroup::units);
    add_streams(block);
    add_host(block);
  }

  bool same_label_before(std::size_t number) const {
    return std::any_of(
        data_.blocks.begin(), data_.blocks.begin() + static_cast<std::ptrdiff_t>(number),
        [&](const auto& other) { return other.label == data_.blocks[number].label; });
  }

  void add_ribbon(const TimelineBlock& block, SideKind side) {
    const auto source = block.of(side);
    if (!source || data_.sources[*source]->coverage.empty()) return;
    push({.kind = RowKind::ribbon,
          .key = fmt::format("{}/overlap/{}", key_, name_of(side)),
          .label = "overlap",
          .source = *source,
          .side = side,
          .depth = 1},
         std::max(10.0, choices_.lane_height * ribbon_share), gap);
  }

  void add_memory(const TimelineBlock& block, SideKind side) {
    const MemoryTrack* track = block.memory_of(side);
    if (track == nullptr) return;
    push({.kind = RowKind::memory,
          .key = fmt::format("{}/memory/{}", key_, name_of(side)),
          .label = "memory",
          .detail = fmt::format("{}, to {}", name_of(track->curve.clock),
                                rounded_text(block.highest_memory())),
          .source = block.of(side).value_or(0),
          .side = side,
          .depth = 1},
         choices_.lane_height * memory_share, gap);
  }

  void add_track(std::size_t source, std::size_t number, int depth, bool is_ghost = false) {
    const TimelineRank& rank = *data_.sources[source];
    const TimelineTrack& track = rank.tracks[number];
    for (std::size_t lane = 0; lane < track.lanes.size(); ++lane) {
      const bool is_last = lane + 1 == track.lanes.size();
      push({.kind = RowKind::lane,
            .key = fmt::format("{}/{}{}/{}.{}", key_, name_of(rank.side), is_ghost ? " ghost" : "",
                               number, lane),
            .label = lane == 0 ? track.label : "",
            .source = source,
            .track = number,
            .lane = lane,
            .side = rank.side,
            .is_ghost = is_ghost,
            .depth = depth},
           choices_.lane_height, is_last ? gap : 0);
    }
  }

  /// The tracks of both sides and the ghost by stream, the n-th of each beside one another.
  void add_streams(const TimelineBlock& block) {
    using Key = std::pair<Stream, std::size_t>;
    std::map<Key, std::vector<std::pair<std::size_t, std::size_t>>> tracks;
    for (const auto& source : {block.predicted, data_.ghost, block.profiled}) {
      if (!source) continue;
      std::map<Stream, std::size_t> seen;
      const auto& all = data_.sources[*source]->tracks;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].group == TrackGroup::streams)
          tracks[{all[i].stream, seen[all[i].stream]++}].emplace_back(*source, i);
    }
    for (const auto& [key, beside] : tracks)
      for (const auto& [source, track] : beside)
        add_track(source, track, 1, data_.ghost == source && block.predicted != source);
  }

  void add_group(const TimelineBlock& block, TrackGroup group) {
    for (const auto& source : {block.predicted, block.profiled}) {
      if (!source) continue;
      const auto& all = data_.sources[*source]->tracks;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].group == group) add_track(*source, i, 1);
    }
  }

  static std::size_t lanes_of(const TimelineRank& rank) {
    std::size_t lanes = 0;
    for (const TimelineTrack& track : rank.tracks)
      if (track.group == TrackGroup::host || track.group == TrackGroup::threads)
        lanes += track.lanes.size();
    return lanes;
  }

  void add_host(const TimelineBlock& block) {
    std::size_t lanes = 0, streams = 0;
    for (const auto& source : {block.predicted, block.profiled}) {
      if (!source) continue;
      lanes += lanes_of(*data_.sources[*source]);
      for (const TimelineTrack& track : data_.sources[*source]->tracks)
        streams += track.group == TrackGroup::streams;
    }
    if (lanes == 0) return;
    const std::string key = key_ + "/host";
    const bool open = is_open(key, streams == 0);
    push({.kind = RowKind::group,
          .key = key,
          .label = fmt::format("host ({} lane{})", lanes, lanes == 1 ? "" : "s"),
          .is_open = open,
          .depth = 1},
         heading_height);
    if (!open) return;
    for (const TrackGroup group : {TrackGroup::host, TrackGroup::threads}) add_group(block, group);
  }

  void add_ghost_alone() {
    key_ = "ghost";
    const auto& all = data_.sources[*data_.ghost]->tracks;
    for (std::size_t i = 0; i < all.size(); ++i) add_track(*data_.ghost, i, 0, true);
  }

  void pin() {
    for (const TimelineRow& row : result_.rows) {
      if (!choices_.pinned.contains(row.key)) continue;
      TimelineRow copy = row;
      copy.top = result_.pinned_height;
      result_.pinned_height += copy.height;
      result_.pinned.push_back(std::move(copy));
    }
  }

  const TimelineData& data_;
  const RowChoices& choices_;
  TimelineRows result_;
  std::string key_;
  std::size_t block_ = 0;
  double top_ = 0;
};

}  // namespace

TimelineRows lay_out_rows(const TimelineData& data, const RowChoices& choices) {
  return Layout(data, choices).run();
}

const TimelineRow* row_at(const std::vector<TimelineRow>& rows, double y) {
  const auto next = std::upper_bound(
      rows.begin(), rows.end(), y, [](double at, const TimelineRow& row) { return at < row.top; });
  if (next == rows.begin()) return nullptr;
  const TimelineRow& row = *std::prev(next);
  return y < row.bottom() ? &row : nullptr;
}

}  // namespace shardscope::gui
