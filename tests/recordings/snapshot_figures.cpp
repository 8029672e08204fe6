#include "tests/recordings/snapshot_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "traces/import/snapshot_replay.h"
#include "traces/import/snapshot_state.h"

namespace shardscope::recordings {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t shown_owners = 20;
constexpr std::size_t shown_annotations = 40;

Json bytes_or_null(const std::optional<Bytes>& bytes) {
  return bytes ? Json(bytes->count) : Json();
}

Json states_json(const std::array<BlockSums, snapshot_block_states>& by_state) {
  Json states = Json::object();
  for (std::size_t i = 0; i < snapshot_block_states; ++i) {
    const BlockSums& sums = by_state[i];
    if (sums.count == 0) continue;
    states[std::string(name_of(static_cast<SnapshotBlockState>(i)))] = {
        {"count", sums.count}, {"size", sums.size.count}, {"requested", sums.requested.count}};
  }
  return states;
}

template <class Key>
Json sums_json(const std::map<Key, SegmentSums>& by_key, std::string (*text)(const Key&)) {
  std::map<std::string, Json> sorted;
  for (const auto& [key, sums] : by_key) sorted[text(key)] = {sums.count, sums.total.count};
  return sorted;
}

std::string pool_text(const std::optional<PoolId>& pool) {
  return pool ? fmt::format("[{}, {}]", pool->first, pool->second) : "?";
}

Json streams_json(const SnapshotState& state) {
  Json streams = Json::object();
  for (const auto& [handle, stream] : state.by_stream) {
    streams[std::to_string(handle)] = {{"segments", stream.segments},
                                       {"reserved", stream.reserved.count},
                                       {"active_size", stream.active.count},
                                       {"active_requested", stream.active_requested.count}};
  }
  return streams;
}

Json owners_json(const SnapshotState& state) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < std::min(state.owners.size(), shown_owners); ++i) {
    const auto& [frame, blocks] = state.owners[i];
    rows.push_back({frame.empty() ? "(none)" : frame, blocks.requested.count, blocks.size.count,
                    blocks.count});
  }
  return rows;
}

Json state_json(const MemorySnapshot& snapshot, std::int64_t device) {
  const SnapshotState state = snapshot_state(snapshot, device);
  std::int64_t blocks = 0;
  for (const BlockSums& sums : state.by_state) blocks += sums.count;
  return {{"segments", state.reserved.count},
          {"blocks", blocks},
          {"reserved", state.reserved.total.count},
          {"allocated_size", bytes_or_null(state.allocated)},
          {"active_size", bytes_or_null(state.active)},
          {"blocks_by_state", states_json(state.by_state)},
          {"segments_by_type",
           sums_json<std::string>(state.by_type, [](const std::string& type) { return type; })},
          {"segments_by_pool", sums_json<std::optional<PoolId>>(state.by_pool, pool_text)},
          {"expandable_segments", state.expandable_segments},
          {"by_stream", streams_json(state)},
          {"inactive_blocks_with_requested_size_over_size", state.leftover_requests},
          {"largest_inactive_block", state.largest_inactive.count},
          {"live_top_frames", state.owners.size()},
          {"live_by_top_frame", owners_json(state)}};
}

void add_changes(const std::string& prefix,
                 const std::array<BlockSums, snapshot_block_states>& by_state,
                 std::map<std::string, std::int64_t>& bytes) {
  for (std::size_t i = 0; i < snapshot_block_states; ++i) {
    if (by_state[i].count > 0)
      bytes[fmt::format("{};{}", prefix, name_of(static_cast<SnapshotBlockState>(i)))] =
          by_state[i].size.count;
  }
}

}  // namespace

Json devices_json(const MemorySnapshot& snapshot) {
  Json devices = Json::object();
  for (const std::int64_t device : snapshot.devices()) {
    devices[std::to_string(device)] = {{"state", state_json(snapshot, device)},
                                       {"trace", snapshot_trace_json(snapshot, device)}};
  }
  return devices;
}

Json settings_json(const MemorySnapshot& snapshot) {
  Json settings = Json::object();
  for (const auto& [name, value] : snapshot.settings) settings[name] = Json::parse(value);
  return settings;
}

Json annotations_json(const MemorySnapshot& snapshot) {
  std::map<std::pair<std::string, std::string>, std::int64_t> counts;
  for (const SnapshotAnnotation& a : snapshot.annotations)
    ++counts[{snapshot.names[a.name], snapshot.names[a.stage]}];
  Json rows = Json::array();
  for (const auto& [key, count] : counts) {
    if (rows.size() < shown_annotations) rows.push_back({key.first, key.second, count});
  }
  return {{"count", snapshot.annotations.size()}, {"by_name_and_stage", rows}};
}

Json host_json(const MemorySnapshot& snapshot) {
  const SnapshotEvents& events = snapshot.host_events;
  std::int64_t segment_bytes = 0, allocated = 0;
  for (const SnapshotSegment& segment : snapshot.host_segments)
    segment_bytes += segment.total.count;
  std::map<std::string, std::int64_t> actions;
  for (std::size_t i = 0; i < events.count(); ++i) {
    ++actions[std::string(name_of(events.action[i]))];
    if (events.action[i] == SnapshotAction::alloc) allocated += events.size[i];
  }
  return {{"segments", snapshot.host_segments.size()},
          {"segment_bytes", segment_bytes},
          {"events_by_action", actions},
          {"alloc_bytes", allocated}};
}

Json changes_json(const MemorySnapshot& before, const MemorySnapshot& after) {
  const SegmentChanges changes = segment_changes(before, after);
  std::map<std::string, std::int64_t> bytes;
  add_changes("only_before", changes.before_by_state, bytes);
  add_changes("only_after", changes.after_by_state, bytes);
  return {{"before", before.file},
          {"after", after.file},
          {"only_before", changes.only_before},
          {"only_after", changes.only_after},
          {"bytes", bytes}};
}

}  // namespace shardscope::recordings
