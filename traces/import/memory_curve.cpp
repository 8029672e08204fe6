#include "traces/import/memory_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>

#include "traces/held_sum.h"
#include "traces/import/snapshot_replay.h"
#include "traces/palette.h"

namespace shardscope {
namespace {

constexpr std::size_t unknown_band = memory_category_count;
constexpr std::string_view unknown_colour = "#bbbbbb";

/// A foreign file may say anything: what all bands hold together must fit.
constexpr Bytes most{std::int64_t{1} << 59};
static_assert(memory_category_count + 1 <= 15 && timeline_categories <= 15);
Bytes within_bounds(Bytes bytes) { return std::clamp(bytes, Bytes{-most.count}, most); }

/// Times of events since the first, never going back; one without a time has that of the one
/// before.
class Clock {
 public:
  /// `times` in nanoseconds; none where an event does not say.
  explicit Clock(const std::vector<std::optional<std::int64_t>>& times) {
    std::optional<std::int64_t> first;
    for (const auto& time : times) {
      if (time && (!first || *time < *first)) first = time;
    }
    std::int64_t last = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      std::int64_t since = static_cast<std::int64_t>(i);
      if (first) since = times[i] ? *times[i] - *first : last;
      since_.push_back({last = std::max(last, since)});
    }
    is_by_event_ = !first.has_value();
  }
  Duration at(std::size_t event) const { return since_[event]; }
  Duration length() const { return since_.empty() ? Duration{} : since_.back() + Duration{1}; }
  bool is_by_event() const { return is_by_event_; }

 private:
  std::vector<Duration> since_;
  bool is_by_event_ = false;
};

/// Collects levels at most one a pixel, so that a long history does not fill the memory.
class CurveBuilder {
 public:
  CurveBuilder(MemoryCurve& curve, std::size_t bands) : curve_(curve), now_(bands) {}

  void add(std::size_t band, Bytes change) { set(band, held_sum(now_[band], change)); }
  void set(std::size_t band, Bytes bytes) { now_[band] = within_bounds(bytes); }

  void level(Duration time) {
    const BandLevel level{.time = time, .by = now_};
    if (const Bytes total = level.total(); total > curve_.peak) {
      curve_.peak = total;
      curve_.peak_time = time;
      for (std::size_t band = 0; band < now_.size(); ++band)
        curve_.bands[band].at_peak = now_[band];
    }
    pending_.push_back(level);
    if (pending_.size() >= most_pending) thin();
  }
  void finish() {
    thin();
    curve_.stack.levels = std::move(pending_);
  }

 private:
  static constexpr std::size_t most_pending = 1 << 14;
  void thin() { pending_ = thinned(pending_, curve_.stack.length); }

  MemoryCurve& curve_;
  std::vector<Bytes> now_;
  std::vector<BandLevel> pending_;
};

std::vector<std::optional<std::int64_t>> times_of(const SnapshotEvents& events) {
  constexpr std::int64_t most_us = std::int64_t{1} << 52;
  std::vector<std::optional<std::int64_t>> times;
  for (std::size_t i = 0; i < events.count(); ++i) {
    const std::int64_t time = events.time_us[i];
    const bool is_usable = time >= 0 && time < most_us;
    times.push_back(is_usable ? std::optional(time * 1000) : std::nullopt);
  }
  return times;
}

void add_band(MemoryCurve& curve, std::string_view name, std::string_view colour) {
  curve.bands.push_back({.name = std::string(name), .at_peak = {}});
  curve.stack.colours.emplace_back(colour);
}

std::size_t band_of(const std::optional<MemoryCategory>& category) {
  return category ? static_cast<std::size_t>(*category) : unknown_band;
}

LiveBlock allocated_by(const SnapshotEvents& events, std::uint32_t event) {
  return {.size = {events.size[event]},
          .address = events.address[event],
          .stack = events.stack[event],
          .event = event};
}

struct Held {
  std::size_t band = 0;
  Bytes size;
};

/// Plays the events again, block by block.
void play(const MemorySnapshot& snapshot, std::int64_t device, const SnapshotReplay& played,
          const Clock& clock, BlockCategories& categories, CurveBuilder& builder) {
  const SnapshotEvents& events = *snapshot.events_of(device);
  std::unordered_map<std::int64_t, Held> live;  // by address
  const auto take = [&](const LiveBlock& block) {
    const Held held{band_of(categories.of(block)), block.size};
    live[block.address] = held;
    builder.add(held.band, held.size);
  };
  for (const LiveBlock& block : live_blocks(snapshot, device, -1)) take(block);
  builder.level({});
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    if (events.action[i] == SnapshotAction::alloc) take(allocated_by(events, i));
    if (events.action[i] == played.completion) {
      const auto at = live.find(events.address[i]);
      if (at == live.end()) continue;
      builder.add(at->second.band, held_negative(at->second.size));
      live.erase(at);
    }
    builder.level(clock.at(i));
  }
}

std::vector<std::optional<std::int64_t>> times_of(const MemoryTimeline& timeline) {
  std::vector<std::optional<std::int64_t>> times;
  constexpr std::int64_t most_us = std::int64_t{1} << 52;
  for (std::size_t i = 0; i < timeline.rows.count(); ++i) {
    const std::int64_t time = timeline.rows.time_ns[i];
    times.push_back(time >= 0 && time < most_us * 1000 ? std::optional(time) : std::nullopt);
  }
  for (const std::int64_t time : timeline.points.times_us)
    times.push_back(time >= 0 && time < most_us ? std::optional(time * 1000) : std::nullopt);
  return times;
}

std::string_view colour_of(TimelineCategory category) {
  switch (category) {
    case TimelineCategory::parameter:
      return palette::of(MemoryCategory::parameters);
    case TimelineCategory::optimizer_state:
      return palette::of(MemoryCategory::optimizer_states);
    case TimelineCategory::input:
      return palette::of(MemoryCategory::inputs);
    case TimelineCategory::temporary:
      return palette::of(MemoryCategory::temporaries);
    case TimelineCategory::activation:
      return palette::of(MemoryCategory::activations);
    case TimelineCategory::gradient:
      return palette::of(MemoryCategory::gradients);
    case TimelineCategory::autograd_detail:
      return palette::of(MemoryCategory::workspace);
    case TimelineCategory::unknown:
      break;
  }
  return unknown_colour;
}

}  // namespace

MemoryCurve memory_curve(const MemorySnapshot& snapshot, std::int64_t device,
                         const FrameRules& rules) {
  MemoryCurve curve{.what = fmt::format("{}, device {}", snapshot.file, device)};
  for (const MemoryCategory category : memory_categories)
    add_band(curve, name_of(category), palette::of(category));
  add_band(curve, "unknown", unknown_colour);
  const SnapshotEvents* events = snapshot.events_of(device);
  if (events == nullptr || events->count() == 0) return curve;
  const Clock clock(times_of(*events));
  curve.is_by_event = clock.is_by_event();
  curve.stack.length = clock.length();
  const SnapshotReplay played = replay(snapshot, device);
  curve.reserved = within_bounds(played.peak_reserved.bytes);
  BlockCategories categories(snapshot, device, rules);
  CurveBuilder builder(curve, curve.bands.size());
  play(snapshot, device, played, clock, categories, builder);
  builder.finish();
  return curve;
}

MemoryCurve memory_curve(const MemoryTimeline& timeline) {
  MemoryCurve curve{.what = timeline.file};
  for (std::size_t i = 0; i < timeline_categories; ++i) {
    const auto category = static_cast<TimelineCategory>(i);
    add_band(curve, name_of(category), colour_of(category));
  }
  const Clock clock(times_of(timeline));
  curve.is_by_event = clock.is_by_event();
  curve.stack.length = clock.length();
  CurveBuilder builder(curve, timeline_categories);
  for (std::size_t i = 0; i < timeline.rows.count(); ++i) {
    builder.add(static_cast<std::size_t>(timeline.rows.category[i]), {timeline.rows.bytes[i]});
    builder.level(clock.at(i));
  }
  const TimelinePoints& points = timeline.points;
  for (std::size_t i = 0; i < points.count(); ++i) {
    for (std::size_t column = 1; column < points.columns && column <= timeline_categories; ++column)
      builder.set(column - 1, {points.bytes[i * points.columns + column]});
    builder.level(clock.at(i));
  }
  builder.finish();
  return curve;
}

}  // namespace shardscope
