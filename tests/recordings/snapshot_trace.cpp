// The part of a golden file that replays a device's events.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/recordings/snapshot_figures.h"
#include "traces/import/snapshot_owners.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope::recordings {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t shown = 10;
constexpr std::size_t samples = 60;
constexpr std::string_view script = "train.py";  // the recordings' training script

template <class Value>
Json text_or_null(const Value& text) {
  return text.empty() ? Json() : Json(text);
}

/// The innermost frame of the training script.
std::string script_frame(const MemorySnapshot& snapshot, std::uint32_t stack) {
  for (const std::uint32_t frame : snapshot.stack(stack)) {
    const std::string& file = snapshot.names[snapshot.frames[frame].file];
    const std::string& name = snapshot.names[snapshot.frames[frame].name];
    if (file == script) return frame_text(snapshot, frame);
    if (file == "none" && name.starts_with(std::string(script) + "(")) return name;
  }
  return {};
}

class TraceJson {
 public:
  TraceJson(const MemorySnapshot& snapshot, std::int64_t device)
      : snapshot_(snapshot),
        events_(*snapshot.events_of(device)),
        replay_(replay(snapshot, device)),
        at_peak_(live_blocks(snapshot, device, replay_.peak_active.event)),
        device_(device) {}

  Json json() const {
    Json json{{"events", events_.count()},
              {"events_by_action", actions()},
              {"completion_action", name_of(replay_.completion)},
              {"baseline", baseline()},
              {"allocs_without_end", replay_.without_end},
              {"end",
               {{"active", replay_.end.active.count},
                {"allocated", allocated(replay_.end.allocated)},
                {"reserved", replay_.end.reserved.count}}},
              {"end_of_replay_equals_segments", replay_.agrees_with_segments()}};
    json.update(peaks());
    json.update(live());
    json["series"] = series();
    add_marks(json);
    add_groups(json);
    add_times(json);
    return json;
  }

 private:
  Json allocated(Bytes bytes) const { return replay_.knows_allocated ? Json(bytes.count) : Json(); }

  Json actions() const {
    std::map<std::string, std::int64_t> counts;
    for (std::size_t i = 0; i < events_.count(); ++i)
      ++counts[std::string(name_of(events_.action[i]))];
    return counts;
  }

  Json baseline() const {
    const SnapshotBaseline& baseline = replay_.baseline;
    return {{"active", baseline.totals.active.count},
            {"blocks", baseline.freed_later + baseline.alive_at_end},
            {"freed_in_trace", baseline.freed_later},
            {"alive_at_end", baseline.alive_at_end},
            {"alive_at_end_with_frames", baseline.alive_with_frames},
            {"allocated", allocated(baseline.totals.allocated)},
            {"reserved", baseline.totals.reserved.count}};
  }

  Json peaks() const {
    const SnapshotPeak& peak = replay_.peak_active;
    const SnapshotTotals totals = replay_.totals_after(peak.event);
    return {{"peak_active", peak.bytes.count},
            {"peak_active_event", peak.event},
            {"peak_active_event_time_us", time(peak.event)},
            {"allocated_at_peak", allocated(totals.allocated)},
            {"reserved_at_peak", totals.reserved.count},
            {"peak_allocated", allocated(replay_.peak_allocated.bytes)},
            {"peak_allocated_event", replay_.peak_allocated.event},
            {"peak_reserved", replay_.peak_reserved.bytes.count},
            {"peak_reserved_event", replay_.peak_reserved.event}};
  }

  Json time(std::int64_t event) const {
    if (event < 0) return {};
    const std::int64_t time = events_.time_us[static_cast<std::size_t>(event)];
    return time == no_time ? Json() : Json(time);
  }

  Json live() const {
    std::map<std::int64_t, std::int64_t> by_stream;
    for (const LiveBlock& block : at_peak_)
      by_stream[snapshot_.streams[block.stream]] += block.size.count;
    Json streams = Json::object(), owners = Json::array(), largest = Json::array();
    for (const auto& [handle, bytes] : by_stream) streams[std::to_string(handle)] = bytes;
    for (const MemoryOwner& owner : owners_by_frame(snapshot_, at_peak_, innermost_python_frame)) {
      if (owners.size() < shown)
        owners.push_back({owner.name.empty() ? "(none)" : owner.name, owner.bytes.count});
    }
    for (std::size_t i = 0; i < std::min(shown, at_peak_.size()); ++i)
      largest.push_back(block_json(at_peak_[i]));
    return {{"blocks_at_peak", at_peak_.size()},
            {"active_at_peak_by_stream", streams},
            {"active_at_peak_by_top_frame", owners},
            {"largest_at_peak", largest}};
  }

  Json block_json(const LiveBlock& block) const {
    return {{"size", block.size.count},
            {"addr", block.address},
            {"stream", snapshot_.streams[block.stream]},
            {"alloc_event", block.event ? Json(*block.event) : Json()},
            {"top", text_or_null(innermost_python_frame(snapshot_, block.stack))},
            {"user", text_or_null(script_frame(snapshot_, block.stack))}};
  }

  Json series() const {
    const std::size_t count = replay_.after.size();
    const std::size_t step = std::max<std::size_t>(1, count / samples);
    Json rows = Json::array();
    for (std::size_t i = 0; i < count; i += step) rows.push_back(sample(i));
    if ((count - 1) % step != 0) rows.push_back(sample(count - 1));
    return rows;
  }

  Json sample(std::size_t i) const {
    const SnapshotTotals& totals = replay_.after[i];
    return {i, totals.active.count, allocated(totals.allocated), totals.reserved.count};
  }

  void add_marks(Json& json) const {
    Json marks = Json::array(), errors = Json::array();
    for (std::size_t i = 0; i < events_.count(); ++i) {
      if (events_.action[i] == SnapshotAction::snapshot)
        marks.push_back({i, events_.size[i], replay_.after[i].active.count});
    }
    for (const SnapshotOutOfMemory& error : snapshot_.out_of_memory) {
      if (error.device == device_)
        errors.push_back(
            {error.event, error.bytes.count, error.free ? Json(error.free->count) : Json()});
    }
    if (!marks.empty()) json["snapshot_events"] = marks;
    if (!errors.empty()) json["oom_events"] = errors;
  }

  void add_groups(Json& json) const {
    const auto name = [&](std::uint32_t id) { return snapshot_.names[id]; };
    if (has(events_.category)) {
      std::map<std::string, std::int64_t> at_peak;
      for (const LiveBlock& block : at_peak_) {
        const std::uint32_t id = block.event ? events_.category[*block.event] : no_name;
        at_peak[!block.event ? "(before)" : id == no_name ? "-" : name(id)] += block.size.count;
      }
      json["active_at_peak_by_category"] = at_peak;
    }
    add_group(json, "by_user_metadata", events_.note, name);
    add_group(json, "by_compile_context", events_.context, name);
    add_group(json, "by_pool_id", events_.pool, [&](std::uint32_t id) {
      return fmt::format("[{}, {}]", snapshot_.pools[id].first, snapshot_.pools[id].second);
    });
    add_group(json, "by_category", events_.category, name);
  }

  static bool has(const EventColumn<std::uint32_t>& column) {
    for (std::size_t i = 0; i < column.size(); ++i) {
      if (column[i] != no_name) return true;
    }
    return false;
  }

  template <class Text>
  void add_group(Json& json, const char* key, const EventColumn<std::uint32_t>& column,
                 const Text& text) const {
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> groups;
    for (std::size_t i = 0; i < column.size(); ++i) {
      if (column[i] == no_name) continue;
      auto& [events, bytes] = groups[text(column[i])];
      ++events;
      if (events_.action[i] == SnapshotAction::alloc) bytes += events_.size[i];
    }
    const bool says_something = std::any_of(groups.begin(), groups.end(), [](const auto& group) {
      return !group.first.empty() && group.first != "N/A";
    });
    if (says_something) json[key] = groups;
  }

  void add_times(Json& json) const {
    std::int64_t first = no_time, last = no_time;
    bool is_ordered = true;
    for (std::size_t i = 0; i < events_.count(); ++i) {
      const std::int64_t time = events_.time_us[i];
      if (time == no_time) continue;
      if (first == no_time) first = time;
      is_ordered = is_ordered && last <= time;
      last = time;
    }
    if (first != no_time)
      json["time_us"] = {first, last, is_ordered ? "non-decreasing" : "not ordered"};
  }

  const MemorySnapshot& snapshot_;
  const SnapshotEvents& events_;
  SnapshotReplay replay_;
  std::vector<LiveBlock> at_peak_;
  std::int64_t device_;
};

}  // namespace

Json snapshot_trace_json(const MemorySnapshot& snapshot, std::int64_t device) {
  const SnapshotEvents* events = snapshot.events_of(device);
  if (events == nullptr || events->count() == 0)
    return {{"events", 0}, {"events_by_action", Json::object()}};
  return TraceJson(snapshot, device).json();
}

}  // namespace shardscope::recordings
