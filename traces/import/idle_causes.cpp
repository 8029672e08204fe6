#include "traces/import/idle_causes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

namespace shardscope {
namespace {

using Activities = std::vector<const DeviceActivity*>;

/// Begins of the host's calls, by what links them with what they launch; of several the first.
std::unordered_map<std::uint32_t, Duration> launches_of(const ImportedTrace& trace) {
  std::unordered_map<std::uint32_t, Duration> launches;
  const EventColumns& events = trace.events;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (events.link[i] == 0 || events.phase[i] != 'X') continue;
    if (trace.track_of(i).kind != TrackKind::thread) continue;
    const auto [at, is_new] = launches.try_emplace(events.link[i], Duration{events.start_ns[i]});
    if (!is_new) at->second = std::min(at->second, {events.start_ns[i]});
  }
  return launches;
}

Activities by_begin(const DeviceActivities& device) {
  Activities activities;
  for (const DeviceActivity& activity : device.activities) activities.push_back(&activity);
  std::stable_sort(activities.begin(), activities.end(),
                   [](const auto* a, const auto* b) { return a->window.begin < b->window.begin; });
  return activities;
}

/// When activities of a device end, by class, to ask for the last end in a stretch of time.
class Ends {
 public:
  explicit Ends(const DeviceActivities& device) {
    for (const DeviceActivity& activity : device.activities)
      ends_.push_back({activity.window.end, &activity});
    std::sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) {
      if (a.time != b.time) return a.time < b.time;
      return is_communication(a) < is_communication(b);
    });
  }

  /// The activity of another stream that ends last within (after, until].
  const DeviceActivity* last(Duration after, Duration until, std::uint32_t stream) const {
    auto at = std::upper_bound(ends_.begin(), ends_.end(), until,
                               [](Duration time, const End& end) { return time < end.time; });
    while (at != ends_.begin() && (--at)->time > after) {
      if (at->activity->stream != stream) return at->activity;
    }
    return nullptr;
  }

 private:
  struct End {
    Duration time;
    const DeviceActivity* activity;
  };
  static bool is_communication(const End& end) {
    return end.activity->span_class == SpanClass::communication;
  }
  std::vector<End> ends_;
};

class Causes {
 public:
  Causes(const ImportedTrace& trace, const DeviceActivities& device, Duration kernel_gap)
      : trace_(trace), launches_(launches_of(trace)), ends_(device), kernel_gap_(kernel_gap) {}

  /// Of the gap before `next`, which begins at `after`.
  IdleCause of(Duration after, const DeviceActivity& next) const {
    const Duration begin = next.window.begin;
    const Duration launched = launch_of(next);
    const DeviceActivity* other =
        ends_.last(std::max(after, begin - kernel_gap_), begin, next.stream);
    if (other != nullptr && other->window.end > launched) {
      return other->span_class == SpanClass::communication ? IdleCause::communication
                                                           : IdleCause::compute;
    }
    if (launched > after) return IdleCause::host;
    return begin - after < kernel_gap_ ? IdleCause::kernel_gap : IdleCause::other;
  }

 private:
  /// Long ago where the trace does not say.
  Duration launch_of(const DeviceActivity& activity) const {
    const auto at = launches_.find(trace_.events.link[activity.event]);
    return at == launches_.end() ? Duration{std::numeric_limits<std::int64_t>::min()} : at->second;
  }

  const ImportedTrace& trace_;
  std::unordered_map<std::uint32_t, Duration> launches_;
  Ends ends_;
  Duration kernel_gap_;
};

/// Gaps between activities in order of their begins.
IdleTime idle_between(const Activities& activities, const Causes& causes) {
  IdleTime idle;
  Duration end = activities.front()->window.begin;
  for (const DeviceActivity* next : activities) {
    if (next->window.begin > end) {
      ++idle.gaps;
      idle.of(causes.of(end, *next)) += next->window.begin - end;
    }
    end = std::max(end, next->window.end);
  }
  return idle;
}

/// What takes most of the time; `activities` point at what has a class and a window.
template <class Activity>
SpanClass main_class(const std::vector<const Activity*>& activities) {
  std::map<SpanClass, std::int64_t> sums;
  for (const Activity* activity : activities)
    sums[activity->span_class] += activity->window.length().ns;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(sums.begin(), sums.end(), less)->first;
}

IdleTime hta_stream(const std::vector<const HtaEvent*>& kernels, Duration kernel_gap) {
  IdleTime idle;
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    const Duration before = kernels[i - 1]->window.end;
    const Duration gap = kernels[i]->window.begin - before;
    const auto& launched = kernels[i]->launched;
    const IdleCause cause = launched && *launched > before ? IdleCause::host
                            : gap < kernel_gap             ? IdleCause::kernel_gap
                                                           : IdleCause::other;
    idle.gaps += gap.ns > 0;
    idle.of(cause) += gap;
  }
  return idle;
}

}  // namespace

std::string_view name_of(IdleCause cause) {
  constexpr std::array<std::string_view, idle_causes.size()> names{
      "host", "communication", "compute", "kernel_gap", "other"};
  return names[static_cast<std::size_t>(cause)];
}

Duration IdleTime::total() const {
  return std::accumulate(by_cause.begin(), by_cause.end(), Duration{});
}

std::vector<IdleTime> idle_times(const ImportedTrace& trace, const DeviceActivities& device,
                                 Duration kernel_gap) {
  if (device.activities.empty()) return {};
  const Causes causes(trace, device, kernel_gap);
  const Activities all = by_begin(device);
  std::vector<Activities> streams(device.streams.size());
  for (const DeviceActivity* activity : all) streams[activity->stream].push_back(activity);
  std::vector<IdleTime> idle{idle_between(all, causes)};
  for (std::size_t i = 0; i < streams.size(); ++i) {
    idle.push_back(idle_between(streams[i], causes));
    idle.back().stream = device.streams[i];
    idle.back().span_class = main_class(streams[i]);
  }
  return idle;
}

std::vector<IdleTime> hta_idle_times(const std::vector<HtaEvent>& events, Duration kernel_gap) {
  std::map<std::int64_t, std::vector<const HtaEvent*>> streams;
  for (const HtaEvent& event : events) {
    if (event.is_kernel) streams[event.stream].push_back(&event);
  }
  std::vector<IdleTime> idle;
  for (auto& [stream, kernels] : streams) {
    std::stable_sort(kernels.begin(), kernels.end(), [](const auto* a, const auto* b) {
      return a->window.begin < b->window.begin;
    });
    idle.push_back(hta_stream(kernels, kernel_gap));
    idle.back().stream = std::to_string(stream);
    idle.back().span_class = main_class(kernels);
  }
  return idle;
}

}  // namespace shardscope
