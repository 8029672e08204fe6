#include "traces/import/imported_trace.h"

#include <algorithm>
#include <numeric>

namespace shardscope {
namespace {

constexpr std::size_t max_lanes = 1 << 16;

template <class T>
std::size_t bytes_of(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

std::size_t bytes_of(const std::vector<std::string>& texts) {
  std::size_t bytes = texts.capacity() * sizeof(std::string);
  for (const std::string& text : texts) bytes += text.capacity();
  return bytes;
}

bool is_span(char phase) { return phase == 'X' || phase == 'B'; }

/// Spans by track, start, falling duration and id.
std::vector<std::uint32_t> sorted_spans(const ImportedTrace& trace) {
  const EventColumns& events = trace.events;
  std::vector<std::size_t> first(trace.tracks.size() + 1);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (is_span(events.phase[i])) ++first[events.track[i] + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> order(first.back());
  std::vector<std::size_t> next = first;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (is_span(events.phase[i])) order[next[events.track[i]]++] = static_cast<std::uint32_t>(i);
  }
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
    if (events.start_ns[a] != events.start_ns[b]) return events.start_ns[a] < events.start_ns[b];
    if (events.duration_ns[a] != events.duration_ns[b])
      return events.duration_ns[a] > events.duration_ns[b];
    return a < b;
  };
  for (std::size_t t = 0; t + 1 < first.size(); ++t) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first[t]);
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(first[t + 1]);
    if (!std::is_sorted(begin, end, earlier)) std::sort(begin, end, earlier);
  }
  return order;
}

/// Lanes of one track in use: when the last span of each ends.
class Lanes {
 public:
  /// The first lane that is free at `start`, taken until `end`.
  std::size_t take(std::int64_t start, std::int64_t end) {
    std::size_t lane = 0;
    while (lane < ends_.size() && ends_[lane] > start) ++lane;
    if (lane == ends_.size() && lane < max_searched) ends_.push_back(end);
    lane = std::min(lane, ends_.size() - 1);
    ends_[lane] = std::max(ends_[lane], end);
    return lane;
  }
  std::size_t size() const { return ends_.size(); }

 private:
  // Deeper nests share the last lane, so that no file makes the search long.
  static constexpr std::size_t max_searched = 256;
  static_assert(max_searched <= max_lanes);
  std::vector<std::int64_t> ends_;
};

}  // namespace

std::size_t EventColumns::allocated_bytes() const {
  return start_ns.allocated_bytes() + duration_ns.allocated_bytes() +
         text_offset.allocated_bytes() + text_length.allocated_bytes() + name.allocated_bytes() +
         track.allocated_bytes() + link.allocated_bytes() + category.allocated_bytes() +
         lane.allocated_bytes() + phase.allocated_bytes() + span_class.allocated_bytes();
}

std::string_view ImportedTrace::header_text(std::string_view key) const {
  const auto at = std::find_if(header.begin(), header.end(),
                               [&](const auto& field) { return field.first == key; });
  return at == header.end() ? std::string_view{} : at->second;
}

std::string ImportedTrace::text_of(std::size_t event) const {
  if (!text) return {};
  return text->read(events.text_offset[event], events.text_length[event]);
}

std::size_t ImportedTrace::allocated_bytes() const {
  return events.allocated_bytes() + bytes_of(by_track) + memory.allocated_bytes() +
         bytes_of(communication) + bytes_of(copied_bytes) + bytes_of(names) + bytes_of(tracks);
}

void lay_out(ImportedTrace& trace) {
  EventColumns& events = trace.events;
  trace.by_track = sorted_spans(trace);
  std::size_t i = 0;
  while (i < trace.by_track.size()) {
    const std::uint32_t id = events.track[trace.by_track[i]];
    ImportedTrack& track = trace.tracks[id];
    Lanes lanes;
    std::int64_t last_end = events.start_ns[trace.by_track[i]];
    for (; i < trace.by_track.size() && events.track[trace.by_track[i]] == id; ++i) {
      const std::uint32_t event = trace.by_track[i];
      const std::int64_t start = events.start_ns[event], end = events.end_ns(event);
      if (track.kind == TrackKind::stream && start < last_end) ++track.overlaps;
      last_end = std::max(last_end, end);
      events.lane[event] = static_cast<std::uint16_t>(lanes.take(start, end));
    }
    track.lanes = static_cast<std::uint32_t>(lanes.size());
    if (track.overlaps > 0)
      trace.report.odd["overlap another event of their stream"] += track.overlaps;
  }
}

}  // namespace shardscope
