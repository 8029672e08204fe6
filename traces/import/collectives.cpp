#include "traces/import/collectives.h"

#include <algorithm>
#include <unordered_map>

#include "traces/import/collective_names.h"

namespace shardscope {
namespace {

bool is_operator(std::string_view name) { return name.starts_with("c10d::"); }

std::optional<std::int64_t> known(std::int64_t value) {
  return value < 0 ? std::nullopt : std::optional(value);
}

std::string_view text(const ImportedTrace& trace, std::uint32_t name) {
  return name == no_name ? std::string_view{} : trace.names[name];
}

void fill(const ImportedTrace& trace, const CommunicationRow& row, ImportedCollective& out) {
  if (row.collective != no_name) out.kind = collective_kind(text(trace, row.collective));
  out.group = text(trace, row.group_description);
  if (out.group.empty() || out.group == "undefined") out.group = text(trace, row.group);
  out.group_ranks = text(trace, row.ranks);
  out.group_size = known(row.group_size);
  out.sequence = known(row.sequence);
  out.elements_in = known(row.elements_in);
  out.elements_out = known(row.elements_out);
  out.dtype = traced_dtype(text(trace, row.dtype));
}

ImportedCollective base_of(const ImportedTrace& trace, std::uint32_t event) {
  return {.event = event,
          .name = std::string(trace.name_of(event)),
          .kind = collective_kind(trace.name_of(event)),
          .start = {trace.events.start_ns[event]},
          .duration = {trace.events.duration_ns[event]}};
}

/// Finds the record_param_comms around the call that launched a kernel.
class Launches {
 public:
  explicit Launches(const ImportedTrace& trace) : trace_(trace) {
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
      const bool is_call = trace.track_of(i).kind == TrackKind::thread;
      if (is_call && trace.events.phase[i] == 'X' && trace.events.link[i] != 0)
        launch_of_.try_emplace(trace.events.link[i], i);
    }
    for (const CommunicationRow& row : trace.communication) {
      if (trace.name_of(row.event) == "record_param_comms")
        by_track_[trace.events.track[row.event]].push_back(&row);
    }
    for (auto& [track, rows] : by_track_) {
      std::stable_sort(rows.begin(), rows.end(), [&](const auto* a, const auto* b) {
        return trace.events.start_ns[a->event] < trace.events.start_ns[b->event];
      });
    }
  }

  const CommunicationRow* around_launch_of(std::uint32_t kernel) const {
    const std::uint32_t link = trace_.events.link[kernel];
    const auto launch = link == 0 ? launch_of_.end() : launch_of_.find(link);
    if (launch == launch_of_.end()) return nullptr;
    const auto rows = by_track_.find(trace_.events.track[launch->second]);
    if (rows == by_track_.end()) return nullptr;
    const std::int64_t time = trace_.events.start_ns[launch->second];
    const auto behind = std::upper_bound(
        rows->second.begin(), rows->second.end(), time,
        [&](std::int64_t t, const auto* row) { return t < trace_.events.start_ns[row->event]; });
    if (behind == rows->second.begin()) return nullptr;
    const CommunicationRow* row = *(behind - 1);
    return trace_.events.end_ns(row->event) >= time ? row : nullptr;
  }

 private:
  const ImportedTrace& trace_;
  std::unordered_map<std::uint32_t, std::uint32_t> launch_of_;
  std::unordered_map<std::uint32_t, std::vector<const CommunicationRow*>> by_track_;
};

std::vector<ImportedCollective> of_kernels(const ImportedTrace& trace) {
  std::unordered_map<std::uint32_t, const CommunicationRow*> rows;
  for (const CommunicationRow& row : trace.communication) rows[row.event] = &row;
  std::optional<Launches> launches;
  std::vector<ImportedCollective> collectives;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const bool is_collective = trace.events.span_class[i] == SpanClass::communication &&
                               trace.events.phase[i] == 'X' &&
                               trace.track_of(i).kind == TrackKind::stream;
    if (!is_collective) continue;
    ImportedCollective collective = base_of(trace, i);
    const auto own = rows.find(i);
    if (!launches && own == rows.end()) launches.emplace(trace);
    const CommunicationRow* row = own != rows.end() ? own->second : launches->around_launch_of(i);
    if (row != nullptr) fill(trace, *row, collective);
    collectives.push_back(std::move(collective));
  }
  return collectives;
}

std::vector<ImportedCollective> of_operators(const ImportedTrace& trace) {
  std::vector<ImportedCollective> collectives;
  for (const CommunicationRow& row : trace.communication) {
    if (!is_operator(trace.name_of(row.event)) || trace.events.phase[row.event] != 'X') continue;
    ImportedCollective collective = base_of(trace, row.event);
    fill(trace, row, collective);
    collectives.push_back(std::move(collective));
  }
  return collectives;
}

}  // namespace

std::vector<ImportedCollective> imported_collectives(const ImportedTrace& trace) {
  std::vector<ImportedCollective> collectives = of_kernels(trace);
  if (collectives.empty()) collectives = of_operators(trace);
  std::stable_sort(collectives.begin(), collectives.end(), [](const auto& a, const auto& b) {
    if (a.start != b.start) return a.start < b.start;
    return a.duration > b.duration;
  });
  return collectives;
}

std::optional<Bandwidth> bus_bandwidth(const ImportedCollective& collective) {
  const auto elements = std::max(collective.elements_in, collective.elements_out);
  if (!collective.kind || !elements || !collective.dtype || collective.duration.ns <= 0)
    return std::nullopt;
  const double ranks = static_cast<double>(collective.group_size.value_or(0));
  double factor = 1;
  switch (*collective.kind) {
    case OperationKind::all_reduce:
      factor = 2 * (ranks - 1) / ranks;
      break;
    case OperationKind::all_gather:
    case OperationKind::reduce_scatter:
    case OperationKind::all_to_all:
      factor = (ranks - 1) / ranks;
      break;
    default:
      break;
  }
  if (ranks < 2) return std::nullopt;
  const double bytes =
      static_cast<double>(*elements) * static_cast<double>(size_of(*collective.dtype).count);
  return Bandwidth{bytes * factor / collective.duration.seconds()};
}

}  // namespace shardscope
