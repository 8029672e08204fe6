#include "gui/data/snapshot_levels.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "traces/held_sum.h"
#include "traces/import/snapshot_categories.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope::gui {
namespace {

/// A foreign file may say anything: nine bands together must fit.
constexpr Bytes most{std::int64_t{1} << 59};
Bytes within_bounds(Bytes bytes) { return std::clamp(bytes, Bytes{-most.count}, most); }

/// Times that may be missing, go back or be equal, as ascending ones. Files have microseconds, in
/// which an allocator does a lot: events of one time are laid over the time until the next, over a
/// microsecond at most, so that each can be seen.
class EventClock {
 public:
  /// Nanoseconds; none where an event does not say.
  explicit EventClock(const std::vector<std::optional<std::int64_t>>& times) {
    std::optional<std::int64_t> first;
    for (const auto& time : times)
      if (time && (!first || *time < *first)) first = time;
    double last = 0;
    since_.reserve(times.size());
    for (const auto& time : times) {
      if (time) last = std::max(last, static_cast<double>(*time - *first));
      since_.push_back(first ? last : static_cast<double>(since_.size()));
    }
    spread();
  }
  double at(std::size_t event) const { return since_[event]; }
  double end() const { return end_; }

 private:
  static constexpr double resolution_ns = 1000;

  void spread() {
    for (std::size_t first = 0; first < since_.size();) {
      const double time = since_[first];
      std::size_t behind = first + 1;
      while (behind < since_.size() && since_[behind] == time) ++behind;
      end_ = behind < since_.size() ? std::min(since_[behind], time + resolution_ns)
                                    : time + resolution_ns;
      const double part = (end_ - time) / static_cast<double>(behind - first);
      for (std::size_t i = first; i < behind; ++i)
        since_[i] = time + part * static_cast<double>(i - first);
      first = behind;
    }
  }

  std::vector<double> since_;
  double end_ = 0;
};

constexpr std::int64_t most_us = std::int64_t{1} << 52;
bool is_usable(std::int64_t time_us) { return time_us >= 0 && time_us < most_us; }

EventClock clock_of(const SnapshotEvents& events) {
  std::vector<std::optional<std::int64_t>> times;
  times.reserve(events.count());
  for (std::size_t i = 0; i < events.count(); ++i) {
    const std::int64_t time = events.time_us[i];
    times.push_back(is_usable(time) ? std::optional(time * 1000) : std::nullopt);
  }
  return EventClock(times);
}

EventClock clock_of(const MemoryTimeline& timeline) {
  std::vector<std::optional<std::int64_t>> times;
  for (std::size_t i = 0; i < timeline.rows.count(); ++i) {
    const std::int64_t time = timeline.rows.time_ns[i];
    times.push_back(time >= 0 && time < most_us * 1000 ? std::optional(time) : std::nullopt);
  }
  for (const std::int64_t time : timeline.points.times_us)
    times.push_back(time >= 0 && time < most_us ? std::optional(time * 1000) : std::nullopt);
  return EventClock(times);
}

/// Plays the events, block by block.
class SnapshotPlay {
 public:
  SnapshotPlay(const MemorySnapshot& snapshot, std::int64_t device)
      : events_(snapshot.events_of(device)),
        played_(replay(snapshot, device)),
        categories_(snapshot, device) {
    for (const LiveBlock& block : live_blocks(snapshot, device, -1)) take(block);
  }

  MemoryLevels levels() {
    MemoryLevels result;
    const std::size_t count = events_ == nullptr ? 0 : events_->count();
    result.levels.reserve(count + 1);
    add_level(result, 0, MemoryLevel::no_event, played_.baseline.totals.reserved);
    if (count == 0) {
      result.end = 1;
      return result;
    }
    const EventClock clock = clock_of(*events_);
    for (std::uint32_t i = 0; i < count; ++i) {
      apply(i);
      add_level(result, clock.at(i), i, played_.after[i].reserved);
    }
    result.end = clock.end();
    return result;
  }

 private:
  struct Held {
    std::size_t band = 0;
    Bytes size;
  };

  void add_level(MemoryLevels& result, double begin, std::uint32_t event, Bytes reserved) const {
    result.levels.push_back(
        {.begin = begin, .bytes = now_, .reserved = within_bounds(reserved), .event = event});
  }

  void change(const Held& held, Bytes by) {
    now_[held.band] = within_bounds(held_sum(now_[held.band], by));
  }

  void take(const LiveBlock& block) {
    const auto category = categories_.of(block);
    const Held held{category ? static_cast<std::size_t>(*category) : unknown_band, block.size};
    live_[block.address] = held;
    change(held, held.size);
  }

  void apply(std::uint32_t event) {
    if (events_->action[event] == SnapshotAction::alloc)
      take({.size = {events_->size[event]},
            .address = events_->address[event],
            .stack = events_->stack[event],
            .event = event});
    if (events_->action[event] != played_.completion) return;
    const auto at = live_.find(events_->address[event]);
    if (at == live_.end()) return;
    change(at->second, held_negative(at->second.size));
    live_.erase(at);
  }

  const SnapshotEvents* events_;
  SnapshotReplay played_;
  BlockCategories categories_;
  std::unordered_map<std::int64_t, Held> live_;  // by address
  BandBytes now_;
};

std::size_t band_of(TimelineCategory category) {
  const auto band = [](MemoryCategory own) { return static_cast<std::size_t>(own); };
  switch (category) {
    case TimelineCategory::parameter:
      return band(MemoryCategory::parameters);
    case TimelineCategory::optimizer_state:
      return band(MemoryCategory::optimizer_states);
    case TimelineCategory::input:
      return band(MemoryCategory::inputs);
    case TimelineCategory::temporary:
    case TimelineCategory::autograd_detail:
      return band(MemoryCategory::temporaries);
    case TimelineCategory::activation:
      return band(MemoryCategory::activations);
    case TimelineCategory::gradient:
      return band(MemoryCategory::gradients);
    case TimelineCategory::unknown:
      break;
  }
  return unknown_band;
}

BandBytes bytes_of_point(const TimelinePoints& points, std::size_t point) {
  BandBytes bytes;
  for (std::size_t column = 1; column < points.columns && column <= timeline_categories; ++column) {
    Bytes& band = bytes[band_of(static_cast<TimelineCategory>(column - 1))];
    band = within_bounds(held_sum(band, {points.bytes[point * points.columns + column]}));
  }
  return bytes;
}

}  // namespace

MemoryLevels snapshot_levels(const MemorySnapshot& snapshot, std::int64_t device) {
  return SnapshotPlay(snapshot, device).levels();
}

std::optional<std::int64_t> snapshot_begin(const MemorySnapshot& snapshot, std::int64_t device) {
  const SnapshotEvents* events = snapshot.events_of(device);
  std::optional<std::int64_t> first;
  for (std::size_t i = 0; events != nullptr && i < events->count(); ++i)
    if (is_usable(events->time_us[i]) && (!first || events->time_us[i] * 1000 < *first))
      first = events->time_us[i] * 1000;
  return first;
}

std::vector<double> snapshot_event_times(const MemorySnapshot& snapshot, std::int64_t device) {
  std::vector<double> times;
  const SnapshotEvents* events = snapshot.events_of(device);
  if (events == nullptr) return times;
  const EventClock clock = clock_of(*events);
  for (std::size_t i = 0; i < events->count(); ++i) times.push_back(clock.at(i));
  return times;
}

double snapshot_length(const MemorySnapshot& snapshot, std::int64_t device) {
  const SnapshotEvents* events = snapshot.events_of(device);
  return events == nullptr || events->count() == 0 ? 1 : clock_of(*events).end();
}

MemoryLevels timeline_levels(const MemoryTimeline& timeline) {
  MemoryLevels result;
  const EventClock clock = clock_of(timeline);
  BandBytes now;
  for (std::size_t i = 0; i < timeline.rows.count(); ++i) {
    Bytes& band = now[band_of(timeline.rows.category[i])];
    band = within_bounds(held_sum(band, {timeline.rows.bytes[i]}));
    result.levels.push_back({.begin = clock.at(i), .bytes = now});
  }
  for (std::size_t i = 0; i < timeline.points.count(); ++i)
    result.levels.push_back({.begin = clock.at(i), .bytes = bytes_of_point(timeline.points, i)});
  result.end = clock.end();
  return result;
}

double timeline_length(const MemoryTimeline& timeline) { return clock_of(timeline).end(); }

}  // namespace shardscope::gui
