// What a device did: kernels, collectives and copies on its streams, and how they overlap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/analysis.h"
#include "traces/import/imported_trace.h"

namespace shardscope {

/// Whether events of a category may be a device's activities: kernels, copies and sets.
bool is_of_devices(std::string_view category);

enum class ActivityKind : std::uint8_t { kernel, memcpy, memset };

/// One run of something on a stream.
struct DeviceActivity {
  std::uint32_t event = 0;
  std::uint32_t stream = 0;  ///< index into DeviceActivities::streams
  ActivityKind kind = ActivityKind::kernel;
  SpanClass span_class = SpanClass::compute;
  TimeWindow window;
};

/// A device's activities in the order of the file, and the names of its streams in the order of
/// their first.
struct DeviceActivities {
  std::int64_t device = 0;
  std::vector<std::string> streams;  ///< "7"
  std::vector<DeviceActivity> activities;
};

/// Of each device, ascending.
std::vector<DeviceActivities> device_activities(const ImportedTrace& trace);

struct StreamFigures {
  std::string stream;
  std::int64_t activities = 0;
  Duration sum;                  ///< of durations
  Duration busy;                 ///< length of their union
  std::int64_t overlapping = 0;  ///< that start before an earlier one ends
};

/// The figures of one device. `time` sums: span = compute + exposed communication + exposed copies
/// + idle. Source: the definitions of TraceLens with memset as a copy.
struct DeviceFigures {
  TimeWindow window;  ///< first start to last end
  Accounting time;
  Duration copies;  ///< length of the union of copies
  Duration sum_of_compute, sum_of_communication, sum_of_copies;
  std::int64_t compute_kernels = 0, communication_kernels = 0, memcpys = 0, memsets = 0;
  std::int64_t without_duration = 0;
  std::vector<StreamFigures> streams;  ///< in the order of DeviceActivities::streams
};

DeviceFigures device_figures(const DeviceActivities& device);

}  // namespace shardscope
