// CUDA memory snapshot pickles of short training runs: what a plain reading of each gives, and what
// the allocator's own statistics said.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/recordings/json_difference.h"
#include "tests/recordings/recordings.h"
#include "tests/recordings/snapshot_figures.h"
#include "traces/import/memory_snapshot_reader.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> compared_fields{"pickle",
                                               "keys",
                                               "devices",
                                               "allocator_settings",
                                               "external_annotations",
                                               "host",
                                               "compare",
                                               "agrees_with_memory_stats"};

std::vector<std::string> cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "golden"))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// One pickle, read once.
struct Recorded {
  Pickle pickle;
  MemorySnapshot snapshot;
};

Recorded read(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto input = decompressed(open_bytes(path));
  Pickle pickle = read_pickle(*input, name);
  if (!pickle.problem().empty()) throw Error({.where = name, .what = pickle.problem()});
  MemorySnapshot snapshot = memory_snapshot_of(pickle, name);
  return {std::move(pickle), std::move(snapshot)};
}

/// What torch.cuda.memory_stats() said of a device at some moment; null if it said nothing.
Json statistics_of(const Json& stats, const std::string& device) {
  const std::string key = "device_" + device;
  if (stats.contains(key)) return stats[key].contains("requested_bytes") ? stats[key] : Json();
  return device == "0" && stats.contains("requested_bytes") ? stats : Json();
}

/// max_entries of the history, which nothing in the file tells.
std::optional<std::int64_t> entries_kept(const Json& settings) {
  const Json history = settings.value("history", Json::object());
  for (const char* key : {"max_entries", "trace_alloc_max_entries"}) {
    if (history.contains(key)) return history[key].get<std::int64_t>();
  }
  const Json arguments = settings.value("history_args", Json::array());
  const bool keeps_one = arguments == Json{"state"} || arguments == Json::array({true});
  return keeps_one ? std::optional<std::int64_t>(1) : std::nullopt;
}

/// Our figures of a device against the allocator's statistics, and whether its history was cut.
class StatisticsCheck {
 public:
  explicit StatisticsCheck(const Json& expected) : expected_(expected) {}

  Json agreement(const std::string& device, Json& ours) const {
    const Json stats = statistics_of(expected_.at("memory_stats_at_dump"), device);
    if (stats.is_null()) return {};
    const Json& state = ours.at("state");
    Json agrees{
        {"reserved", state["reserved"] == stats["reserved_bytes"]["current"]},
        {"allocated_size", state["allocated_size"] == stats["allocated_bytes"]["current"]},
        {"active_size", state["active_size"] == stats["active_bytes"]["current"]},
        {"active_requested", active_requested(state) == stats["requested_bytes"]["current"]}};
    Json& trace = ours.at("trace");
    if (trace["events"] == 0) return agrees;
    const auto kept = entries_kept(expected_.at("settings"));
    const bool is_cut = kept && trace["events"].get<std::int64_t>() >= *kept;
    trace["truncated"] = is_cut;
    if (!is_cut) add_history(device, stats, trace, agrees);
    return agrees;
  }

 private:
  static std::int64_t active_requested(const Json& state) {
    std::int64_t bytes = 0;
    for (const auto& [name, sums] : state["blocks_by_state"].items()) {
      if (name != "inactive") bytes += sums["requested"].get<std::int64_t>();
    }
    return bytes;
  }

  void add_history(const std::string& device, const Json& stats, const Json& trace,
                   Json& agrees) const {
    const bool knows_reserved =
        trace["events_by_action"].contains("segment_alloc") || trace["peak_reserved_event"] == -1;
    if (knows_reserved)
      agrees["peak_reserved"] = trace["peak_reserved"] == stats["reserved_bytes"]["peak"];
    agrees["peak_active"] = trace["peak_active"] == stats["requested_bytes"]["peak"];
    const Json marks = expected_.value("memory_stats_at_marks", Json::object());
    if (!marks.contains("history_started")) return;
    const Json began = statistics_of(marks["history_started"][0], device);
    if (began.is_null()) return;
    const Json& baseline = trace["baseline"];
    agrees["baseline_active"] = baseline["active"] == began["requested_bytes"]["current"];
    agrees["baseline_reserved"] = baseline["reserved"] == began["reserved_bytes"]["current"];
  }

  const Json& expected_;
};

/// The library prints addresses as a set: "only_after = [140181032140800, ...]".
Json address_set(const Json& printed, const std::string& name) {
  for (const Json& line : printed) {
    const auto text = line.get<std::string>();
    if (!text.starts_with(name + " = ")) continue;
    const Json list = Json::parse(text.substr(name.size() + 3));
    std::set<std::int64_t> sorted;
    for (const Json& address : list) sorted.insert(address.get<std::int64_t>());
    return sorted;
  }
  return {};
}

Json compare_json(const std::filesystem::path& folder, const Json& expected) {
  const auto before = read(folder / expected.at("before").get<std::string>());
  const auto after = read(folder / expected.at("after").get<std::string>());
  Json changes = changes_json(before.snapshot, after.snapshot);
  for (const char* key : {"only_before", "only_after"})
    std::sort(changes[key].begin(), changes[key].end());
  return changes;
}

Json expected_compare(const Json& recorded) {
  return {{"before", recorded["before"]},
          {"after", recorded["after"]},
          {"only_before", address_set(recorded["printed"], "only_before")},
          {"only_after", address_set(recorded["printed"], "only_after")},
          {"bytes", recorded["bytes"]}};
}

Json figures_of(const std::filesystem::path& folder, const Json& expected) {
  const Recorded recorded = read(folder / expected.at("file").get<std::string>());
  Json got{{"pickle", pickle_json(recorded.pickle)},
           {"keys", keys_json(recorded.pickle)},
           {"devices", devices_json(recorded.snapshot)},
           {"allocator_settings", settings_json(recorded.snapshot)},
           {"external_annotations", annotations_json(recorded.snapshot)},
           {"host", host_json(recorded.snapshot)}};
  if (expected.contains("compare")) got["compare"] = compare_json(folder, expected["compare"]);
  if (expected.contains("agrees_with_memory_stats")) {
    Json agreements = Json::object();
    for (auto& [device, figures] : got["devices"].items()) {
      Json agrees = StatisticsCheck(expected).agreement(device, figures);
      if (!agrees.is_null()) agreements[device] = std::move(agrees);
    }
    got["agrees_with_memory_stats"] = std::move(agreements);
  }
  return got;
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  Json expected = Json::parse(read_whole(folder / "golden" / (name + ".json")));
  const Json got = figures_of(folder, expected);
  if (expected.contains("compare")) expected["compare"] = expected_compare(expected["compare"]);
  for (const std::string& field : compared_fields) {
    if (!expected.contains(field) || options.leaves_out(field)) continue;
    const std::string difference = json_difference(field, expected[field], got.at(field));
    if (!difference.empty()) return {.difference = difference, .worst_share = {}, .worst = {}};
  }
  return {};
}

}  // namespace

Kind snapshots_kind() {
  return {.name = "snapshots", .fields = compared_fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
