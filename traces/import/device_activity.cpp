#include "traces/import/device_activity.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

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

/// Sums that stay at the largest duration instead of overflowing.
Duration sum_of(const std::vector<TimeWindow>& windows) {
  std::int64_t sum = 0;
  for (const TimeWindow& window : windows) {
    if (__builtin_add_overflow(sum, window.length().ns, &sum))
      return {std::numeric_limits<std::int64_t>::max()};
  }
  return {sum};
}

void put_in_order(std::vector<TimeWindow>& windows) {
  const auto earlier = [](TimeWindow a, TimeWindow b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  };
  if (!std::is_sorted(windows.begin(), windows.end(), earlier))
    std::sort(windows.begin(), windows.end(), earlier);
}

/// `windows` in order.
std::int64_t count_overlapping(const std::vector<TimeWindow>& windows) {
  std::int64_t count = 0;
  for (std::size_t i = 1, last = 0; i < windows.size(); ++i) {
    count += windows[i].begin < windows[last].end;
    if (windows[i].end >= windows[last].end) last = i;
  }
  return count;
}

/// Windows by class and by stream.
struct Sorted {
  std::vector<TimeWindow> compute, communication, copies;
  std::vector<std::vector<TimeWindow>> streams;
};

Sorted sorted(const DeviceActivities& device) {
  Sorted result;
  result.streams.resize(device.streams.size());
  for (const DeviceActivity& activity : device.activities) {
    result.streams[activity.stream].push_back(activity.window);
    if (activity.span_class == SpanClass::compute) result.compute.push_back(activity.window);
    if (activity.span_class == SpanClass::communication)
      result.communication.push_back(activity.window);
    if (activity.span_class == SpanClass::copy) result.copies.push_back(activity.window);
  }
  return result;
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

}  // namespace

std::vector<DeviceActivities> device_activities(const ImportedTrace& trace) {
  std::vector<std::optional<ActivityKind>> kinds;
  for (const std::string& category : trace.categories) kinds.push_back(kind_of(category));
  std::map<std::int64_t, DeviceActivities> devices;
  std::map<std::pair<std::int64_t, std::string>, std::uint32_t> streams;
  std::vector<std::optional<std::uint32_t>> stream_of_track(trace.tracks.size());
  const EventColumns& events = trace.events;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const auto& kind = kinds[events.category[i]];
    if (!kind || events.phase[i] != 'X') continue;
    const ImportedTrack& track = trace.track_of(i);
    if (track.kind != TrackKind::stream) continue;
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
                                 .kind = *kind,
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
  Sorted windows = sorted(device);
  figures.sum_of_compute = sum_of(windows.compute);
  figures.sum_of_communication = sum_of(windows.communication);
  figures.sum_of_copies = sum_of(windows.copies);
  for (std::size_t i = 0; i < device.streams.size(); ++i) {
    auto& of_stream = windows.streams[i];
    put_in_order(of_stream);
    figures.streams.push_back({.stream = device.streams[i],
                               .activities = static_cast<std::int64_t>(of_stream.size()),
                               .sum = sum_of(of_stream),
                               .overlapping = count_overlapping(of_stream)});
    figures.streams.back().busy = IntervalUnion(std::move(of_stream)).length();
  }
  const BusyTimes busy{.compute = IntervalUnion(std::move(windows.compute)),
                       .communication = IntervalUnion(std::move(windows.communication)),
                       .copies = IntervalUnion(std::move(windows.copies))};
  figures.copies = busy.copies.length();
  figures.time = account(busy, figures.window);
  return figures;
}

}  // namespace shardscope
