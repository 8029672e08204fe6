#include "traces/import/idle_causes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <vector>

namespace shardscope {
namespace {

/// Indices of a device's activities: a trace may have many millions.
using Activities = std::vector<std::uint32_t>;

/// The host's calls that launch something, by what links them with it, of one link by start.
class Launches {
 public:
  explicit Launches(const ImportedTrace& trace) : events_(trace.events) {
    const auto launches = [&](std::size_t i) {
      return events_.link[i] != 0 && events_.phase[i] == 'X' &&
             trace.track_of(i).kind == TrackKind::thread;
    };
    std::size_t number = 0;
    for (std::size_t i = 0; i < events_.size(); ++i) number += launches(i);
    calls_.reserve(number);
    for (std::size_t i = 0; i < events_.size(); ++i)
      if (launches(i)) calls_.push_back(static_cast<std::uint32_t>(i));
    const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
      if (events_.link[a] != events_.link[b]) return events_.link[a] < events_.link[b];
      return events_.start_ns[a] < events_.start_ns[b];
    };
    if (!std::is_sorted(calls_.begin(), calls_.end(), earlier))
      std::sort(calls_.begin(), calls_.end(), earlier);
  }

  /// Of several the first; long ago where the trace does not say.
  Duration of(std::uint32_t link) const {
    const auto at = std::lower_bound(
        calls_.begin(), calls_.end(), link,
        [&](std::uint32_t call, std::uint32_t wanted) { return events_.link[call] < wanted; });
    if (at == calls_.end() || events_.link[*at] != link)
      return {std::numeric_limits<std::int64_t>::min()};
    return {events_.start_ns[*at]};
  }

 private:
  const EventColumns& events_;
  std::vector<std::uint32_t> calls_;
};

Activities all_of(const DeviceActivities& device) {
  Activities activities(device.activities.size());
  std::iota(activities.begin(), activities.end(), 0U);
  return activities;
}

Activities by_begin(const DeviceActivities& device) {
  Activities activities = all_of(device);
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
    const Duration of_a = device.activities[a].window.begin;
    const Duration of_b = device.activities[b].window.begin;
    return of_a != of_b ? of_a < of_b : a < b;
  };
  if (!std::is_sorted(activities.begin(), activities.end(), earlier))
    std::sort(activities.begin(), activities.end(), earlier);
  return activities;
}

/// When activities of a device end, by class, to ask for the last end in a stretch of time.
class Ends {
 public:
  explicit Ends(const DeviceActivities& device) : device_(device), ends_(all_of(device)) {
    std::sort(ends_.begin(), ends_.end(), [this](std::uint32_t a, std::uint32_t b) {
      if (end_of(a) != end_of(b)) return end_of(a) < end_of(b);
      if (is_communication(a) != is_communication(b)) return is_communication(b);
      return a < b;
    });
  }

  /// The activity of another stream that ends last within (after, until].
  const DeviceActivity* last(Duration after, Duration until, std::uint32_t stream) const {
    auto at = std::upper_bound(
        ends_.begin(), ends_.end(), until,
        [this](Duration time, std::uint32_t activity) { return time < end_of(activity); });
    while (at != ends_.begin() && end_of(*--at) > after) {
      if (device_.activities[*at].stream != stream) return &device_.activities[*at];
    }
    return nullptr;
  }

 private:
  Duration end_of(std::uint32_t activity) const { return device_.activities[activity].window.end; }
  bool is_communication(std::uint32_t activity) const {
    return device_.activities[activity].span_class == SpanClass::communication;
  }

  const DeviceActivities& device_;
  Activities ends_;
};

class Causes {
 public:
  Causes(const ImportedTrace& trace, const DeviceActivities& device, Duration kernel_gap)
      : trace_(trace), launches_(trace), ends_(device), kernel_gap_(kernel_gap) {}

  /// Of the gap before `next`, which begins at `after`.
  IdleCause of(Duration after, const DeviceActivity& next) const {
    const Duration begin = next.window.begin;
    const Duration launched = launches_.of(trace_.events.link[next.event]);
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
  const ImportedTrace& trace_;
  Launches launches_;
  Ends ends_;
  Duration kernel_gap_;
};

/// Gaps between activities in order of their begins.
class IdleTimes {
 public:
  IdleTimes(const DeviceActivities& device, const Causes& causes)
      : device_(device), causes_(causes) {}

  IdleTime between(std::span<const std::uint32_t> activities) const {
    IdleTime idle;
    Duration end = device_.activities[activities.front()].window.begin;
    for (const std::uint32_t index : activities) {
      const DeviceActivity& next = device_.activities[index];
      if (next.window.begin > end) {
        ++idle.gaps;
        idle.of(causes_.of(end, next)) += next.window.begin - end;
      }
      end = std::max(end, next.window.end);
    }
    return idle;
  }

 private:
  const DeviceActivities& device_;
  const Causes& causes_;
};

/// What takes most of the time. `at` gives what has a class and a window.
template <class Items>
SpanClass main_class(const Items& items, const auto& at) {
  std::map<SpanClass, std::int64_t> sums;
  for (const auto& item : items) sums[at(item).span_class] += at(item).window.length().ns;
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
  const IdleTimes times(device, causes);
  Activities order = by_begin(device);
  std::vector<IdleTime> idle{times.between(order)};
  const auto stream_of = [&](std::uint32_t activity) { return device.activities[activity].stream; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return stream_of(a) < stream_of(b); });
  for (auto begin = order.begin(); begin != order.end();) {
    const std::uint32_t stream = stream_of(*begin);
    const auto end =
        std::find_if(begin, order.end(), [&](std::uint32_t a) { return stream_of(a) != stream; });
    const std::span<const std::uint32_t> own(begin, end);
    idle.push_back(times.between(own));
    idle.back().stream = device.streams[stream];
    idle.back().span_class = main_class(
        own, [&](std::uint32_t a) -> const DeviceActivity& { return device.activities[a]; });
    begin = end;
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
    idle.back().span_class =
        main_class(kernels, [](const HtaEvent* event) -> const HtaEvent& { return *event; });
  }
  return idle;
}

}  // namespace shardscope
