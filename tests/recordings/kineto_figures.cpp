#include "tests/recordings/kineto_figures.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/recordings/ports/annotations.h"
#include "tests/recordings/ports/execution_trace.h"
#include "tests/recordings/python_text.h"
#include "tests/recordings/trace_figures.h"
#include "traces/import/collectives.h"
#include "traces/import/memory_activity.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using Events = std::vector<std::uint32_t>;

/// The recording keeps the operator's name where it does not know the kind.
constexpr std::array kinds_recorded{"c10d::allgather_",      "c10d::_allgather_base_",
                                    "c10d::reduce_scatter_", "c10d::_reduce_scatter_base_",
                                    "c10d::allreduce_",      "c10d::broadcast_",
                                    "c10d::barrier"};
constexpr std::array listed_words{"FSDP",
                                  "FullyShardedDataParallel",
                                  "DDP",
                                  "DistributedDataParallel",
                                  "Optimizer",
                                  "c10d::",
                                  "gloo:",
                                  "fsdp::",
                                  "torch.distributed"};

/// Spans but the profiler's own, by start and falling duration.
Events spans_of(const ImportedTrace& trace) {
  Events spans;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events.phase[i] == 'X' && trace.category_of(i) != "Trace") spans.push_back(i);
  }
  std::stable_sort(spans.begin(), spans.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto& events = trace.events;
    if (events.start_ns[a] != events.start_ns[b]) return events.start_ns[a] < events.start_ns[b];
    return events.duration_ns[a] > events.duration_ns[b];
  });
  return spans;
}

bool is_step(const ImportedTrace& trace, std::uint32_t event) {
  return trace.name_of(event).starts_with("ProfilerStep#");
}

Json thread_json(const ImportedTrace& trace, std::uint32_t event) {
  return place_json(trace.track_of(event).thread);
}

bool starts_in(const ImportedTrace& trace, std::uint32_t event, std::uint32_t step) {
  const std::int64_t start = trace.events.start_ns[event];
  return trace.events.start_ns[step] <= start && start < trace.events.end_ns(step);
}

Json step_name(const ImportedTrace& trace, const Events& steps, std::uint32_t event) {
  for (const std::uint32_t step : steps) {
    if (starts_in(trace, event, step)) return trace.name_of(step);
  }
  return nullptr;
}

Json header_json(const ImportedTrace& trace) {
  Json header = Json::object();
  for (const auto& [key, value] : trace.header) {
    if (key != "trace_id" && key != "traceName") header[key] = Json::parse(value);
  }
  return header;
}

Json events_json(const ImportedTrace& trace) {
  std::map<std::string, std::int64_t> counts;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const std::string_view category = trace.category_of(i);
    ++counts[std::string(1, trace.events.phase[i]) + " " +
             std::string(category.empty() ? "-" : category)];
  }
  return Json(counts);
}

Json threads_json(const ImportedTrace& trace) {
  struct Row {
    Json place, names, counts = Json::object();
  };
  std::map<std::string, Row> rows;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const char phase = trace.events.phase[i];
    const std::string category(trace.category_of(i));
    if ((phase != 'X' && phase != 'i') || category.empty() || category == "Trace") continue;
    const ImportedTrack& track = trace.track_of(i);
    const Json place = Json::array({place_json(track.process), place_json(track.thread)});
    Row& row = rows[python_text(place)];
    row.place = place;
    row.names = track.names;
    row.counts[category] = row.counts.value(category, 0) + 1;
  }
  Json table = Json::array();
  for (const auto& [text, row] : rows)
    table.push_back({row.place[0], row.place[1], row.names, row.counts});
  return table;
}

Json flows_json(const ImportedTrace& trace) {
  std::set<std::uint32_t> starts, ends;
  std::int64_t start_count = 0, end_count = 0, both = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events.phase[i] == 's') ++start_count, starts.insert(trace.events.link[i]);
    if (trace.events.phase[i] == 'f') ++end_count, ends.insert(trace.events.link[i]);
  }
  for (const std::uint32_t id : starts) both += static_cast<std::int64_t>(ends.count(id));
  return {{"starts", start_count}, {"ends", end_count}, {"ids_with_both", both}};
}

std::vector<MemoryChange> all_changes(const ImportedTrace& trace) {
  std::vector<MemoryChange> changes;
  for (std::size_t i = 0; i < trace.memory.size(); ++i) changes.push_back(trace.memory[i]);
  std::stable_sort(changes.begin(), changes.end(), [&](const auto& a, const auto& b) {
    return std::pair(trace.events.start_ns[a.event], a.order) <
           std::pair(trace.events.start_ns[b.event], b.order);
  });
  return changes;
}

Json steps_json(const ImportedTrace& trace, const Events& spans, const Events& steps) {
  const std::vector<MemoryChange> changes = all_changes(trace);
  Json rows = Json::array();
  for (const std::uint32_t step : steps) {
    const auto operators = std::count_if(spans.begin(), spans.end(), [&](std::uint32_t event) {
      return trace.category_of(event) == "cpu_op" && starts_in(trace, event, step);
    });
    std::int64_t count = 0;
    std::optional<std::int64_t> peak;
    for (const MemoryChange& change : changes) {
      if (!starts_in(trace, change.event, step)) continue;
      ++count;
      peak = std::max(peak.value_or(change.allocated.count), change.allocated.count);
    }
    rows.push_back({{"name", trace.name_of(step)},
                    {"ts_ns", trace.events.start_ns[step]},
                    {"dur_ns", trace.events.duration_ns[step]},
                    {"tid", thread_json(trace, step)},
                    {"cpu_ops", operators},
                    {"memory_events", count},
                    {"peak_total_allocated", peak ? Json(*peak) : Json()}});
  }
  return rows;
}

/// Of a trace whose changes are all of one device, as those of the CPU are.
Json memory_json(const ImportedTrace& trace) {
  if (trace.memory.empty()) return nullptr;
  const std::vector<MemoryChange> changes = all_changes(trace);
  Json devices = Json::object();
  for (const MemoryChange& change : changes) {
    const MemoryDevice& device = trace.memory_devices[change.device];
    const std::string key = std::to_string(device.type) + " " + std::to_string(device.id);
    devices[key] = devices.value(key, 0) + 1;
  }
  const MemoryFigures figures = memory_figures(trace, 0);
  const MemoryChange& first = changes.front();
  return {{"events", changes.size()},
          {"by_device_type_and_id", devices},
          {"first", {trace.events.start_ns[first.event], first.bytes.count, first.allocated.count}},
          {"peak_total_allocated", figures.peak_allocated.count},
          {"peak_ts_ns", figures.peak_time.ns},
          {"lowest_total_allocated", figures.lowest_allocated.count},
          {"final_total_allocated", figures.final_allocated.count},
          {"bytes_allocated", figures.taken.count},
          {"bytes_freed", figures.freed.count},
          {"not_previous_total_plus_bytes", figures.inconsistent}};
}

Json optional_json(std::optional<std::int64_t> value) { return value ? Json(*value) : Json(); }

Json collectives_json(const ImportedTrace& trace, const Events& steps) {
  const Annotations annotations(trace);
  Json rows = Json::array();
  for (const ImportedCollective& c : imported_collectives(trace)) {
    const bool is_recorded =
        std::find(kinds_recorded.begin(), kinds_recorded.end(), c.name) != kinds_recorded.end();
    Json around = Json::array();
    for (const std::uint32_t mark : annotations.around(c.event))
      around.push_back(trace.name_of(mark));
    rows.push_back({is_recorded && c.kind ? std::string(name_of(*c.kind)) : c.name,
                    optional_json(c.elements_in), optional_json(c.elements_out), c.name, c.start.ns,
                    c.duration.ns, thread_json(trace, c.event), step_name(trace, steps, c.event),
                    around});
  }
  return rows;
}

Json transport_json(const ImportedTrace& trace, const Events& spans, const Events& steps) {
  std::map<std::uint32_t, const CommunicationRow*> rows_of;
  for (const CommunicationRow& row : trace.communication) rows_of[row.event] = &row;
  Json rows = Json::array();
  for (const std::uint32_t event : spans) {
    const auto row = rows_of.find(event);
    if (row == rows_of.end() || !trace.name_of(event).starts_with("gloo:")) continue;
    const std::int64_t elements = row->second->elements_in;
    const std::uint32_t dtype = row->second->dtype;
    rows.push_back({trace.name_of(event), elements < 0 ? Json() : Json(elements),
                    dtype == no_name ? Json() : Json(trace.names[dtype]),
                    trace.events.start_ns[event], trace.events.duration_ns[event],
                    thread_json(trace, event), step_name(trace, steps, event)});
  }
  return rows;
}

bool is_listed(const ImportedTrace& trace, std::uint32_t event) {
  if (is_step(trace, event)) return false;
  if (trace.category_of(event) == "user_annotation") return true;
  const std::string_view name = trace.name_of(event);
  return trace.category_of(event) == "cpu_op" &&
         std::any_of(listed_words.begin(), listed_words.end(),
                     [&](const char* word) { return name.find(word) != name.npos; });
}

Json annotations_json(const ImportedTrace& trace, const Events& spans) {
  Json rows = Json::array();
  for (const std::uint32_t event : spans) {
    if (!is_listed(trace, event)) continue;
    rows.push_back({trace.name_of(event), trace.category_of(event), trace.events.start_ns[event],
                    trace.events.duration_ns[event], thread_json(trace, event)});
  }
  return rows;
}

}  // namespace

Json rank_json(const ImportedTrace& trace) {
  const Events spans = spans_of(trace);
  Events steps;
  std::int64_t start = INT64_MAX, end = INT64_MIN;
  for (const std::uint32_t event : spans) {
    if (is_step(trace, event)) steps.push_back(event);
    start = std::min(start, trace.events.start_ns[event]);
    end = std::max(end, trace.events.end_ns(event));
  }
  return {{"file", trace.file},
          {"bytes", trace.report.text_bytes},
          {"header", header_json(trace)},
          {"rank", trace.rank ? Json(*trace.rank) : Json()},
          {"events_by_ph_and_cat", events_json(trace)},
          {"start_ns", start},
          {"end_ns", end},
          {"window_ns", trace_windows(trace)},
          {"threads", threads_json(trace)},
          {"flows", flows_json(trace)},
          {"steps", steps_json(trace, spans, steps)},
          {"memory", memory_json(trace)},
          {"collectives", collectives_json(trace, steps)},
          {"transport", transport_json(trace, spans, steps)},
          {"annotations", annotations_json(trace, spans)}};
}

Json execution_json(const std::filesystem::path& path) {
  const ExecutionTrace trace = read_execution_trace(path);
  Json header = Json::object(), collectives = Json::array(), steps = Json::array();
  for (const auto& [key, value] : trace.header) header[key] = Json::parse(value);
  std::set<std::int64_t> ids;
  for (const ExecutionNode& node : trace.nodes) {
    if (node.record_function >= 0) ids.insert(node.record_function);
    if (node.name.starts_with("c10d::"))
      collectives.push_back({node.name, Json::parse(node.input_shapes)});
    if (node.name.starts_with("ProfilerStep#")) steps.push_back(node.name);
  }
  return {{"file", path.filename().string()}, {"header", header},
          {"nodes", trace.nodes.size()},      {"rf_ids", ids.size()},
          {"collectives", collectives},       {"steps", steps}};
}

}  // namespace shardscope::recordings
