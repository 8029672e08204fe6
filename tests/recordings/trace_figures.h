// Figures of imported traces in the shape of ../shared/data/traces' golden.json.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "traces/import/device_activity.h"
#include "traces/import/imported_trace.h"

namespace shardscope::recordings {

/// A table of [*key, number, *totals]: counts rows of equal key and adds their totals up.
class GroupedRows {
 public:
  explicit GroupedRows(std::size_t key_columns) : key_columns_(key_columns) {}
  void add(const nlohmann::ordered_json& key, std::vector<std::int64_t> totals = {});
  /// {"columns": columns, "rows": [...]}, the rows in Python's order of their keys.
  nlohmann::ordered_json table(nlohmann::ordered_json columns) const;

 private:
  std::size_t key_columns_;
  std::vector<std::pair<nlohmann::ordered_json, std::vector<std::int64_t>>> rows_;
  std::map<std::string, std::size_t> at_;
};

/// [[start, end]] of the profiler's own windows.
nlohmann::ordered_json trace_windows(const ImportedTrace& trace);
/// All figures of one device (or process), after its "device" or "process" key. The names of
/// streams are numbers where the trace has numbers.
nlohmann::ordered_json device_json(const ImportedTrace& trace, const DeviceActivities& device);

/// A process or thread: a number or a text.
nlohmann::ordered_json place_json(const PlaceName& place);

/// All figures of an export of Nsight Systems.
nlohmann::ordered_json nsight_json(const ImportedTrace& trace);

/// All figures of a trace in the Chrome format.
nlohmann::ordered_json kineto_json(const ImportedTrace& trace);

}  // namespace shardscope::recordings
