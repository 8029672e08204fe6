#include "tests/recordings/trace_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "tests/recordings/python_text.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

bool is_number(const std::string& text) {
  return text.find_first_not_of("-0123456789") == text.npos;
}

Json stream_json(const std::string& name) {
  return is_number(name) ? Json(std::stoll(name)) : Json(name);
}

Json streams_json(const DeviceFigures& figures) {
  std::vector<StreamFigures> streams = figures.streams;
  const auto filled = [](const StreamFigures& s) { return fmt::format("{:0>40}", s.stream); };
  std::stable_sort(streams.begin(), streams.end(),
                   [&](const auto& a, const auto& b) { return filled(a) < filled(b); });
  Json rows = Json::array();
  for (const StreamFigures& s : streams) {
    rows.push_back({stream_json(s.stream), s.activities, s.sum.ns, s.busy.ns, s.overlapping});
  }
  return {{"columns", {"stream", "activities", "sum_ns", "busy_ns", "overlaps"}}, {"rows", rows}};
}

Json communication_by_name(const ImportedTrace& trace, const DeviceActivities& device) {
  GroupedRows rows(1);
  for (const DeviceActivity& a : device.activities) {
    if (a.span_class != SpanClass::communication) continue;
    const std::string_view name = trace.name_of(a.event);
    rows.add(Json::array({name.substr(0, name.find('('))}), {a.window.length().ns});
  }
  return rows.table({"name", "kernels", "sum_ns"});
}

Json copies_by_name(const ImportedTrace& trace, const DeviceActivities& device) {
  std::unordered_map<std::uint32_t, std::int64_t> bytes;
  for (const CopiedBytes& copied : trace.copied_bytes) bytes[copied.event] = copied.bytes.count;
  GroupedRows rows(1);
  for (const DeviceActivity& a : device.activities) {
    if (a.span_class != SpanClass::copy) continue;
    const auto known = bytes.find(a.event);
    rows.add(Json::array({trace.name_of(a.event)}),
             {a.window.length().ns, known == bytes.end() ? 0 : known->second});
  }
  return rows.table({"name", "number", "sum_ns", "bytes"});
}

std::int64_t overlaps_of(const DeviceFigures& figures) {
  std::int64_t count = 0;
  for (const StreamFigures& stream : figures.streams) count += stream.overlapping;
  return count;
}

}  // namespace

void GroupedRows::add(const Json& key, std::vector<std::int64_t> totals) {
  const auto [at, is_new] = at_.try_emplace(key.dump(), rows_.size());
  if (is_new) rows_.push_back({key, std::vector<std::int64_t>(totals.size() + 1)});
  std::vector<std::int64_t>& sums = rows_[at->second].second;
  ++sums[0];
  for (std::size_t i = 0; i < totals.size(); ++i) sums[i + 1] += totals[i];
}

Json GroupedRows::table(Json columns) const {
  Json rows = Json::array();
  for (const auto& [key, sums] : rows_) {
    Json row = key;
    for (const std::int64_t sum : sums) row.push_back(sum);
    rows.push_back(std::move(row));
  }
  sort_rows(rows, key_columns_);
  return {{"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

Json device_json(const ImportedTrace& trace, const DeviceActivities& device) {
  const DeviceFigures figures = device_figures(device);
  return {{"compute_kernels", figures.compute_kernels},
          {"communication_kernels", figures.communication_kernels},
          {"memcpys", figures.memcpys},
          {"memsets", figures.memsets},
          {"zero_duration", figures.without_duration},
          {"same_stream_overlaps", overlaps_of(figures)},
          {"start_ns", figures.window.begin.ns},
          {"end_ns", figures.window.end.ns},
          {"span_ns", figures.time.span.ns},
          {"compute_ns", figures.time.compute.ns},
          {"communication_ns", figures.time.communication.ns},
          {"copy_ns", figures.copies.ns},
          {"overlap_ns", figures.time.overlap.ns},
          {"exposed_communication_ns", figures.time.exposed_communication.ns},
          {"exposed_copy_ns", figures.time.exposed_copy.ns},
          {"idle_ns", figures.time.idle.ns},
          {"sum_of_compute_durations_ns", figures.sum_of_compute.ns},
          {"sum_of_communication_durations_ns", figures.sum_of_communication.ns},
          {"sum_of_copy_durations_ns", figures.sum_of_copies.ns},
          {"streams", figures.streams.size()},
          {"by_stream", streams_json(figures)},
          {"communication_by_name", communication_by_name(trace, device)},
          {"copies_by_name", copies_by_name(trace, device)}};
}

Json place_json(const PlaceName& place) {
  return place.is_number && is_number(place.text) ? Json(std::stoll(place.text)) : Json(place.text);
}

}  // namespace shardscope::recordings
