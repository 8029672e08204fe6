#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/recordings/trace_figures.h"
#include "traces/import/host_activity.h"
#include "traces/import/memory_activity.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

Json events_by_phase_and_category(const ImportedTrace& trace) {
  std::map<std::string, std::int64_t> counts;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const std::string_view category = trace.category_of(i);
    const std::string key = std::string(1, trace.events.phase[i]) + " ";
    ++counts[key + std::string(category.empty() ? "-" : category)];
  }
  return Json(counts);
}

Json host_json(const ImportedTrace& trace) {
  const HostFigures host = host_figures(trace);
  Json calls = Json::array();
  for (const CommunicationCalls& c : host.calls) calls.push_back({c.name, c.number, c.sum.ns});
  return {{"events", host.events},
          {"threads", host.threads},
          {"start_ns", host.window ? Json(host.window->begin.ns) : Json()},
          {"end_ns", host.window ? Json(host.window->end.ns) : Json()},
          {"busy_ns", host.busy.ns},
          {"zero_duration", host.without_duration},
          {"communication_calls", {{"columns", {"name", "number", "sum_ns"}}, {"rows", calls}}},
          {"communication_calls_ns", host.calling.ns}};
}

Json steps_json(const ImportedTrace& trace) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.name_of(i).starts_with("ProfilerStep#")) steps.push_back(i);
  }
  std::stable_sort(steps.begin(), steps.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(trace.category_of(a), trace.events.start_ns[a]) <
           std::pair(trace.category_of(b), trace.events.start_ns[b]);
  });
  Json rows = Json::array();
  for (const std::size_t i : steps) {
    const ImportedTrack& track = trace.track_of(i);
    rows.push_back({trace.name_of(i), trace.category_of(i), trace.events.start_ns[i],
                    trace.events.duration_ns[i], place_json(track.process),
                    place_json(track.thread)});
  }
  return {{"columns", {"name", "cat", "start_ns", "duration_ns", "pid", "tid"}}, {"rows", rows}};
}

Json process_groups(const ImportedTrace& trace) {
  const std::string info(trace.header_text("distributedInfo"));
  const Json parsed = info.empty() ? Json::object() : Json::parse(info);
  Json rows = Json::array();
  for (const Json& g : parsed.value("pg_config", Json::array())) {
    rows.push_back({g.at("pg_name"), g.at("pg_desc"), g.at("backend_config"), g.at("pg_size"),
                    g.at("ranks").size()});
  }
  return {{"columns", {"pg_name", "pg_desc", "backend_config", "pg_size", "ranks_listed"}},
          {"rows", rows}};
}

/// The rows of kernels, or of record_param_comms.
Json collectives(const ImportedTrace& trace, bool of_kernels) {
  const auto text = [&](std::uint32_t name) {
    return name == no_name ? Json() : Json(trace.names[name]);
  };
  const auto number = [](std::int64_t value) { return value < 0 ? 0 : value; };
  GroupedRows rows(5);
  for (const CommunicationRow& row : trace.communication) {
    const bool is_call = trace.track_of(row.event).kind == TrackKind::thread;
    if (is_call == of_kernels) continue;
    if (is_call && trace.name_of(row.event) != "record_param_comms") continue;
    const Json key =
        Json::array({text(row.collective), text(row.group), text(row.group_description),
                     text(row.dtype), row.group_size < 0 ? Json() : Json(row.group_size)});
    rows.add(key, {number(row.elements_in), number(row.elements_out),
                   trace.events.duration_ns[row.event]});
  }
  return rows.table({"Collective name", "Process Group Name", "Process Group Description", "dtype",
                     "Group size", "number", "In msg nelems", "Out msg nelems", "sum_ns"});
}

Json memory_json(const ImportedTrace& trace) {
  std::vector<std::uint32_t> order(trace.memory_devices.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace.memory_devices[a] > trace.memory_devices[b];
  });
  Json result = Json::array();
  for (const std::uint32_t device : order) {
    const MemoryFigures m = memory_figures(trace, device);
    result.push_back({{"device_type", m.device.type},
                      {"device_id", m.device.id},
                      {"events", m.changes},
                      {"before_first", m.before_first.count},
                      {"final_allocated", m.final_allocated.count},
                      {"lowest_allocated", m.lowest_allocated.count},
                      {"peak_allocated", m.peak_allocated.count},
                      {"peak_ns", m.peak_time.ns},
                      {"peak_reserved", m.peak_reserved.count},
                      {"lowest_reserved", m.lowest_reserved.count},
                      {"bytes_allocated", m.taken.count},
                      {"bytes_freed", m.freed.count},
                      {"not_previous_plus_bytes", m.inconsistent}});
  }
  return result;
}

Json devices_json(const ImportedTrace& trace) {
  Json devices = Json::array();
  for (const DeviceActivities& device : device_activities(trace)) {
    Json figures{{"device", device.device}};
    figures.update(device_json(trace, device));
    devices.push_back(std::move(figures));
  }
  return devices;
}

std::int64_t rounded_times(const ImportedTrace& trace) {
  const auto at = trace.report.odd.find("have times finer than nanoseconds, rounded");
  return at == trace.report.odd.end() ? 0 : at->second;
}

}  // namespace

Json trace_windows(const ImportedTrace& trace) {
  Json windows = Json::array();
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.category_of(i) == "Trace")
      windows.push_back({trace.events.start_ns[i], trace.events.end_ns(i)});
  }
  return windows;
}

Json kineto_json(const ImportedTrace& trace) {
  return {{"base_ns", trace.base_ns},
          {"rank", trace.rank ? Json(*trace.rank) : Json()},
          {"world_size", trace.world ? Json(*trace.world) : Json()},
          {"events", trace.report.events_kept},
          {"times_rounded", rounded_times(trace)},
          {"events_by_ph_and_cat", events_by_phase_and_category(trace)},
          {"cpu", host_json(trace)},
          {"trace_window_ns", trace_windows(trace)},
          {"steps", steps_json(trace)},
          {"process_groups", process_groups(trace)},
          {"collectives_on_kernels", collectives(trace, true)},
          {"record_param_comms", collectives(trace, false)},
          {"memory", memory_json(trace)},
          {"devices", devices_json(trace)}};
}

}  // namespace shardscope::recordings
