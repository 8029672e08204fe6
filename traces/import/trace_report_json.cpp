#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "traces/import/trace_report.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json count_or_null(const std::optional<Value>& value) {
  if constexpr (std::is_same_v<Value, Bytes>) {
    return value ? Json(value->count) : Json();
  } else {
    return value ? Json(*value) : Json();
  }
}

Json rank_json(const RankReport& rank) {
  return {{"rank", rank.rank},
          {"device", count_or_null(rank.device)},
          {"file", rank.file},
          {"span_ns", rank.time.span.ns},
          {"compute_ns", rank.time.compute.ns},
          {"communication_ns", rank.time.communication.ns},
          {"copy_ns", rank.copies.ns},
          {"overlap_ns", rank.time.overlap.ns},
          {"exposed_communication_ns", rank.time.exposed_communication.ns},
          {"exposed_copy_ns", rank.time.exposed_copy.ns},
          {"idle_ns", rank.time.idle.ns},
          {"events", rank.events},
          {"streams", rank.streams},
          {"same_stream_overlaps", rank.overlapping},
          {"peak_allocated_bytes", count_or_null(rank.peak_allocated)},
          {"peak_active_bytes", count_or_null(rank.peak_active)},
          {"peak_reserved_bytes", count_or_null(rank.peak_reserved)}};
}

Json group_json(const GroupReport& group) {
  return {{"rank", group.rank},
          {"group", group.group},
          {"collectives", group.collectives},
          {"communication_ns", group.communication.ns},
          {"exposed_communication_ns", group.exposed_communication.ns}};
}

Json collective_json(const RankCollective& of_rank) {
  const ImportedCollective& c = of_rank.collective;
  const auto bandwidth = bus_bandwidth(c);
  return {{"rank", of_rank.rank},
          {"name", c.name},
          {"kind", c.kind ? Json(name_of(*c.kind)) : Json()},
          {"group", c.group},
          {"group_size", count_or_null(c.group_size)},
          {"elements_in", count_or_null(c.elements_in)},
          {"elements_out", count_or_null(c.elements_out)},
          {"dtype", c.dtype ? Json(name_of(*c.dtype)) : Json()},
          {"start_ns", c.start.ns},
          {"duration_ns", c.duration.ns},
          {"bus_bandwidth_bytes_per_s", bandwidth ? Json(bandwidth->bytes_per_s) : Json()}};
}

Json idle_json(const IdleReport& report) {
  Json json{{"rank", report.rank},
            {"device", report.device},
            {"stream", report.idle.stream ? Json(*report.idle.stream) : Json()},
            {"class", report.idle.stream ? Json(name_of(report.idle.span_class)) : Json()},
            {"gaps", report.idle.gaps},
            {"idle_ns", report.idle.total().ns}};
  for (const IdleCause cause : idle_causes)
    json[std::string(name_of(cause)) + "_ns"] = report.idle.of(cause).ns;
  return json;
}

Json matched_json(const MatchedCollective& matched) {
  Json parts = Json::array();
  for (const CollectivePart& part : matched.parts) {
    parts.push_back({{"rank", part.rank},
                     {"start_ns", part.start.ns},
                     {"duration_ns", part.duration.ns},
                     {"wait_ns", part.wait.ns}});
  }
  return {{"group", matched.what.group},
          {"call", matched.call},
          {"sequence", count_or_null(matched.what.sequence)},
          {"kind", matched.what.kind ? Json(name_of(*matched.what.kind)) : Json()},
          {"elements_in", count_or_null(matched.what.elements_in)},
          {"elements_out", count_or_null(matched.what.elements_out)},
          {"start_skew_ns", matched.start_skew.ns},
          {"last_rank", matched.last_rank},
          {"ranks", parts}};
}

Json waits_json(const RankWaits& rank) {
  return {{"rank", rank.rank},
          {"clock_offset_ns", rank.clock_offset.ns},
          {"collectives", rank.collectives},
          {"times_last", rank.times_last},
          {"waited_ns", rank.waited.ns},
          {"let_others_wait_ns", rank.let_others_wait.ns}};
}

Json owners_json(const std::vector<MemoryOwner>& owners, const char* name) {
  Json rows = Json::array();
  for (const MemoryOwner& owner : owners) {
    rows.push_back(
        {{name, owner.name.empty() ? Json() : Json(owner.name)}, {"bytes", owner.bytes.count}});
    if (owner.blocks > 0) rows.back()["blocks"] = owner.blocks;
  }
  return rows;
}

Json memory_json(const MemoryReport& memory) {
  return {{"file", memory.file},
          {"source", memory.source},
          {"rank", count_or_null(memory.rank)},
          {"device", count_or_null(memory.device)},
          {"peak_allocated_bytes", count_or_null(memory.peak_allocated)},
          {"peak_active_bytes", count_or_null(memory.peak_active)},
          {"peak_reserved_bytes", count_or_null(memory.peak_reserved)},
          {"active_before_bytes", count_or_null(memory.active_before)},
          {"reserved_at_peak_bytes", count_or_null(memory.reserved_at_peak)},
          {"history_is_cut", memory.is_cut},
          {"out_of_memory_errors", memory.out_of_memory},
          {"at_peak", owners_json(memory.categories, "category")},
          {"owners_at_peak", owners_json(memory.owners, "frame")}};
}

Json counts_json(const std::map<std::string, std::int64_t>& counts) {
  Json list = Json::array();
  for (const auto& [reason, count] : counts) list.push_back({{"reason", reason}, {"count", count}});
  return list;
}

void add(const std::map<std::string, std::int64_t>& counts,
         std::map<std::string, std::int64_t>& sums) {
  for (const auto& [reason, count] : counts) sums[reason] += count;
}

/// Of all files together; what was guessed of each.
Json import_json(const std::vector<FileReport>& imports) {
  ImportReport sum;
  Json guessed = Json::array();
  for (const auto& [file, import] : imports) {
    if (sum.format.find(import.format) == std::string::npos)
      sum.format += (sum.format.empty() ? "" : ", ") + import.format;
    sum.events_read += import.events_read;
    sum.events_kept += import.events_kept;
    add(import.skipped, sum.skipped);
    add(import.odd, sum.odd);
    for (const std::string& text : import.guessed) {
      if (std::find(guessed.begin(), guessed.end(), text) == guessed.end()) guessed.push_back(text);
    }
  }
  return {{"format", sum.format},
          {"files", imports.size()},
          {"events_read", sum.events_read},
          {"events_kept", sum.events_kept},
          {"skipped", counts_json(sum.skipped)},
          {"odd", counts_json(sum.odd)},
          {"guessed", guessed}};
}

}  // namespace

std::string to_json(const TraceReport& report) {
  Json json{{"schema", "shardscope.report/1"},
            {"definitions", name_of(report.definitions)},
            {"ranks", Json::array()},
            {"groups", Json::array()},
            {"idle", Json::array()},
            {"collectives", Json::array()},
            {"matched_collectives", Json::array()},
            {"stragglers", Json::array()},
            {"not_matched", report.matched.not_matched},
            {"memory", Json::array()},
            {"import", import_json(report.imports)}};
  json["import"]["left_out"] = report.left_out;
  for (const RankReport& rank : report.ranks) json["ranks"].push_back(rank_json(rank));
  for (const GroupReport& group : report.groups) json["groups"].push_back(group_json(group));
  for (const IdleReport& idle : report.idle) json["idle"].push_back(idle_json(idle));
  for (const MatchedCollective& matched : report.matched.collectives)
    json["matched_collectives"].push_back(matched_json(matched));
  for (const RankWaits& rank : report.matched.ranks) json["stragglers"].push_back(waits_json(rank));
  for (const RankCollective& c : report.collectives)
    json["collectives"].push_back(collective_json(c));
  for (const MemoryReport& memory : report.memory) json["memory"].push_back(memory_json(memory));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope
