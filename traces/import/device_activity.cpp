#include "traces/import/device_activity.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "traces/running_account.h"

namespace shardscope {
namespace {

/// The kind of an activity by its category; none for other events.
std::optional<ActivityKind> kind_of(std::string_view category) {
  const auto is = [&](std::string_view lower) {
    return std::equal(category.begin(), category.end(), lower.begin(), lower.end(),
                      [](char a, char b) { return (a | 0x20) == b; });
  };
  if (is("kernel")) return ActivityKind::kernel;
  if (is("memcpy") || category == "gpu_memcpy") return ActivityKind::memcpy;
  if (is("memset") || category == "gpu_memset") return ActivityKind::memset;
  return std::nullopt;
}

/// Stays at the largest duration instead of overflowing.
void add_to(Duration& sum, Duration length) {
  if (__builtin_add_overflow(sum.ns, length.ns, &sum.ns))
    sum.ns = std::numeric_limits<std::int64_t>::max();
}

/// Indices of the activities by begin and end: a trace may have many millions.
std::vector<std::uint32_t> by_begin(const DeviceActivities& device) {
  std::vector<std::uint32_t> order(device.activities.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
    const TimeWindow &of_a = device.activities[a].window, &of_b = device.activities[b].window;
    return of_a.begin != of_b.begin ? of_a.begin < of_b.begin : of_a.end < of_b.end;
  };
  if (!std::is_sorted(order.begin(), order.end(), earlier))
    std::sort(order.begin(), order.end(), earlier);
  return order;
}

/// Of the streams of a device, whose activities come in order.
class Streams {
 public:
  explicit Streams(const DeviceActivities& device) : ends_(device.streams.size()) {
    for (const std::string& name : device.streams) figures_.push_back({.stream = name});
  }

  void add(const DeviceActivity& activity) {
    const TimeWindow window = activity.window;
    StreamFigures& figures = figures_[activity.stream];
    std::int64_t& end = ends_[activity.stream];
    const bool is_first = figures.activities++ == 0;
    add_to(figures.sum, window.length());
    figures.overlapping += !is_first && window.begin.ns < end;
    const std::int64_t covered = is_first ? window.begin.ns : std::max(end, window.begin.ns);
    figures.busy += {std::max<std::int64_t>(0, window.end.ns - covered)};
    end = is_first ? window.end.ns : std::max(end, window.end.ns);
  }
  std::vector<StreamFigures> take() && { return std::move(figures_); }

 private:
  std::vector<StreamFigures> figures_;
  std::vector<std::int64_t> ends_;  ///< the last of each stream
};

void add_to_sums(const DeviceActivity& activity, DeviceFigures& figures) {
  const Duration length = activity.window.length();
  if (activity.span_class == SpanClass::compute) add_to(figures.sum_of_compute, length);
  if (activity.span_class == SpanClass::communication) add_to(figures.sum_of_communication, length);
  if (activity.span_class == SpanClass::copy) add_to(figures.sum_of_copies, length);
}

void count(const DeviceActivities& device, DeviceFigures& figures) {
  figures.window = device.activities.front().window;
  for (const DeviceActivity& activity : device.activities) {
    const bool is_communication = activity.span_class == SpanClass::communication;
    const bool is_kernel = activity.kind == ActivityKind::kernel;
    figures.communication_kernels += is_kernel && is_communication;
    figures.compute_kernels += is_kernel && !is_communication;
    figures.memcpys += activity.kind == ActivityKind::memcpy;
    figures.memsets += activity.kind == ActivityKind::memset;
    figures.without_duration += activity.window.begin == activity.window.end;
    figures.window.begin = std::min(figures.window.begin, activity.window.begin);
    figures.window.end = std::max(figures.window.end, activity.window.end);
  }
}

using Kinds = std::vector<std::optional<ActivityKind>>;

bool is_activity(const ImportedTrace& trace, const Kinds& kinds, std::size_t event) {
  return kinds[trace.events.category[event]] && trace.events.phase[event] == 'X' &&
         trace.track_of(event).kind == TrackKind::stream;
}

/// By device.
std::map<std::int64_t, std::size_t> numbers_of_activities(const ImportedTrace& trace,
                                                          const Kinds& kinds) {
  std::vector<std::size_t> of_track(trace.tracks.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (is_activity(trace, kinds, i)) ++of_track[trace.events.track[i]];
  std::map<std::int64_t, std::size_t> numbers;
  for (std::size_t t = 0; t < of_track.size(); ++t)
    if (of_track[t] > 0) numbers[trace.tracks[t].device] += of_track[t];
  return numbers;
}

}  // namespace

bool is_of_devices(std::string_view category) { return kind_of(category).has_value(); }

std::vector<DeviceActivities> device_activities(const ImportedTrace& trace) {
  Kinds kinds;
  for (const std::string& category : trace.categories) kinds.push_back(kind_of(category));
  std::map<std::int64_t, DeviceActivities> devices;
  for (const auto& [device, number] : numbers_of_activities(trace, kinds))
    devices[device].activities.reserve(number);
  std::map<std::pair<std::int64_t, std::string>, std::uint32_t> streams;
  std::vector<std::optional<std::uint32_t>> stream_of_track(trace.tracks.size());
  const EventColumns& events = trace.events;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (!is_activity(trace, kinds, i)) continue;
    const ImportedTrack& track = trace.track_of(i);
    DeviceActivities& device = devices.try_emplace(track.device).first->second;
    auto& stream = stream_of_track[events.track[i]];
    if (!stream) {
      std::string name =
          track.scope + (track.scope.empty() ? "" : " stream ") + std::to_string(track.stream);
      const auto next = static_cast<std::uint32_t>(device.streams.size());
      const auto [at, is_new] = streams.try_emplace({track.device, name}, next);
      if (is_new) device.streams.push_back(std::move(name));
      stream = at->second;
    }
    device.device = track.device;
    device.activities.push_back({.event = i,
                                 .stream = *stream,
                                 .kind = *kinds[events.category[i]],
                                 .span_class = events.span_class[i],
                                 .window = {{events.start_ns[i]}, {events.end_ns(i)}}});
  }
  std::vector<DeviceActivities> result;
  for (auto& [id, device] : devices) result.push_back(std::move(device));
  return result;
}

DeviceFigures device_figures(const DeviceActivities& device) {
  DeviceFigures figures;
  if (device.activities.empty()) return figures;
  count(device, figures);
  Streams streams(device);
  RunningAccount account;
  for (const std::uint32_t index : by_begin(device)) {
    const DeviceActivity& activity = device.activities[index];
    streams.add(activity);
    account.add(activity.window, activity.span_class);
    add_to_sums(activity, figures);
  }
  figures.streams = std::move(streams).take();
  figures.time = account.account(figures.window);
  figures.copies = account.copies();
  return figures;
}

}  // namespace shardscope
