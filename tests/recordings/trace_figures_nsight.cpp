#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/recordings/trace_figures.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t common_names = 12;

bool is_range(const ImportedTrace& trace, std::size_t event) {
  return trace.track_of(event).kind == TrackKind::thread &&
         trace.category_of(event) != "cuda_runtime";
}

Json types_json(const ImportedTrace& trace) {
  GroupedRows rows(3);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const ImportedTrack& track = trace.track_of(i);
    if (is_range(trace, i))
      rows.add(
          {trace.category_of(i), std::stoll(track.process.text), std::stoll(track.thread.text)});
  }
  return rows.table({"type", "pid", "tid", "ranges"});
}

/// The most common first, then by name.
Json common_json(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Json rows = Json::array();
  for (const auto& [name, count] : sorted) {
    if (rows.size() < common_names) rows.push_back({name, count});
  }
  return {{"columns", {"name without op_id and seq", "ranges"}}, {"rows", rows}};
}

Json ranges_json(const ImportedTrace& trace) {
  std::int64_t ranges = 0, open = 0;
  std::map<std::string, std::int64_t> counts;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (!is_range(trace, i)) continue;
    ++ranges;
    open += trace.events.phase[i] != 'X';
    ++counts[std::string(trace.name_of(i))];
  }
  return {{"ranges", ranges},
          {"without_end", open},
          {"names", counts.size()},
          {"by_type_and_thread", types_json(trace)},
          {"most_common_names", common_json(counts)}};
}

/// "pid 7 context 1 stream 2"
std::int64_t process_of(const std::string& stream) { return std::stoll(stream.substr(4)); }

/// The activities of all devices by their process.
std::map<std::int64_t, DeviceActivities> by_process(const std::vector<DeviceActivities>& devices) {
  std::map<std::int64_t, DeviceActivities> processes;
  for (const DeviceActivities& device : devices) {
    std::vector<std::uint32_t> stream_of;  // in the process
    for (const std::string& stream : device.streams) {
      std::vector<std::string>& streams = processes[process_of(stream)].streams;
      const auto at = std::find(streams.begin(), streams.end(), stream);
      stream_of.push_back(static_cast<std::uint32_t>(at - streams.begin()));
      if (at == streams.end()) streams.push_back(stream);
    }
    for (DeviceActivity activity : device.activities) {
      const std::int64_t process = process_of(device.streams[activity.stream]);
      activity.stream = stream_of[activity.stream];
      processes[process].activities.push_back(activity);
    }
  }
  return processes;
}

}  // namespace

Json nsight_json(const ImportedTrace& trace) {
  const std::vector<DeviceActivities> activities = device_activities(trace);
  Json devices = Json::array(), processes = Json::array();
  for (const DeviceActivities& device : activities) {
    Json row{{"device", device.device}};
    row.update(device_json(trace, device));
    devices.push_back(std::move(row));
  }
  for (const auto& [pid, process] : by_process(activities)) {
    Json row{{"pid", pid}};
    row.update(device_json(trace, process));
    processes.push_back(std::move(row));
  }
  return {{"schema", Json::parse(trace.header_text("EXPORT_SCHEMA_VERSION"))},
          {"rows", Json::parse(trace.header_text("rows"))},
          {"nvtx", ranges_json(trace)},
          {"devices", devices},
          {"processes", processes}};
}

}  // namespace shardscope::recordings
