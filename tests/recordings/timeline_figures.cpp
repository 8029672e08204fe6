#include "tests/recordings/timeline_figures.h"

#include <fmt/format.h>

#include <map>

#include "core/base/error.h"
#include "tests/recordings/trace_figures.h"
#include "traces/import/memory_timeline.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

MemoryTimeline read(const std::filesystem::path& path) {
  const auto input = decompressed(open_bytes(path));
  return read_memory_timeline(*input, path.filename().string());
}

Json time_json(const std::optional<std::int64_t>& time) { return time ? Json(*time) : Json(); }

Json categories_json(const TimelineFigures& figures) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < timeline_categories; ++i) {
    rows.push_back({name_of(static_cast<TimelineCategory>(i)), figures.maximum[i].count,
                    figures.at_peak[i].count, figures.at_end[i].count});
  }
  return {{"columns", {"category", "peak_bytes", "bytes_at_total_peak", "final_bytes"}},
          {"rows", rows}};
}

Json changes_json(const TimelineRows& timeline) {
  GroupedRows rows(2);
  for (std::size_t i = 0; i < timeline.count(); ++i) {
    rows.add(Json::array({name_of(timeline.action[i]), name_of(timeline.category[i])}),
             {timeline.bytes[i]});
  }
  return rows.table({"action", "category", "rows", "bytes"});
}

/// By PyTorch's own numbers.
Json numbered_changes(const TimelineRows& rows) {
  std::map<std::string, std::int64_t> counts;
  for (std::size_t i = 0; i < rows.count(); ++i)
    ++counts[fmt::format("action {} category {}", static_cast<int>(rows.action[i]) + 1,
                         static_cast<int>(rows.category[i]))];
  return counts;
}

Json bytes_before(const TimelineRows& rows) {
  std::map<int, std::int64_t> bytes;
  for (std::size_t i = 0; i < rows.count(); ++i) {
    if (rows.action[i] == TimelineAction::preexisting)
      bytes[static_cast<int>(rows.category[i])] += rows.bytes[i];
  }
  Json json = Json::object();
  for (const auto& [category, count] : bytes) json[std::to_string(category)] = count;
  return json;
}

/// The first column, then the categories.
Json columns_json(const TimelinePoints& points,
                  const std::array<Bytes, timeline_categories>& by_category) {
  Json columns = Json::array({0});
  for (std::size_t i = 0; i + 1 < points.columns; ++i) columns.push_back(by_category[i].count);
  return columns;
}

}  // namespace

Json memory_timeline_json(const std::filesystem::path& path) {
  const MemoryTimeline timeline = read(path);
  const TimelineFigures figures = timeline_figures(timeline);
  return {{"rows", timeline.rows.count()},
          {"first_ns", time_json(figures.first_ns)},
          {"last_ns", time_json(figures.last_ns)},
          {"times_going_back", figures.times_going_back},
          {"peak_bytes", figures.peak.count},
          {"peak_row", figures.peak_at},
          {"peak_ns", figures.peak_ns},
          {"final_bytes", figures.final.count},
          {"by_category", categories_json(figures)},
          {"rows_by_action_and_category", changes_json(timeline.rows)}};
}

Json memory_timelines_json(const std::filesystem::path& raw_path) {
  const MemoryTimeline raw = read(raw_path);
  std::string name = raw_path.filename().string();
  const std::size_t at = name.find(".raw.");
  if (at == name.npos) throw Error({.where = name, .what = "is not named \".raw.\""});
  const MemoryTimeline other = read(raw_path.parent_path() / name.replace(at, 5, "."));
  const TimelineFigures raw_figures = timeline_figures(raw), figures = timeline_figures(other);
  const TimelinePoints& points = other.points;
  return {{"file", raw.file},
          {"raw_rows", raw.rows.count()},
          {"rows_by_action_and_category", numbered_changes(raw.rows)},
          {"bytes_before_by_category", bytes_before(raw.rows)},
          {"raw_peak", raw_figures.peak.count},
          {"raw_final", raw_figures.final.count},
          {"points", points.count()},
          {"first_us", points.times_us.front()},
          {"last_us", points.times_us.back()},
          {"peak", figures.peak.count},
          {"peak_by_column", columns_json(points, figures.maximum)},
          {"final_by_column", columns_json(points, figures.at_end)}};
}

}  // namespace shardscope::recordings
