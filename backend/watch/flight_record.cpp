#include "backend/watch/flight_record.h"

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "backend/rendezvous/tcp_store_protocol.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

/// What to add to the steady clock for Unix time.
Duration unix_offset() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return Duration{std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count()} -
         steady_now();
}

Json time_or_null(Duration time, Duration offset) {
  return time.ns == 0 ? Json(nullptr) : Json((time + offset).ns);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json json_of(const FlightEntry& entry, Duration offset) {
  return {{"sequence", entry.sequence},
          {"operation", entry.operation},
          {"unit", text_or_null(entry.unit)},
          {"group", text_or_null(entry.group)},
          {"group_call", entry.call == 0 ? Json(nullptr) : Json(entry.call)},
          {"peer", entry.peer < 0 ? Json(nullptr) : Json(entry.peer)},
          {"bytes", entry.bytes.count},
          {"dtype", entry.dtype ? Json(name_of(*entry.dtype)) : Json(nullptr)},
          {"state", name_of(entry.state)},
          {"scheduled_ns", time_or_null(entry.scheduled, offset)},
          {"started_ns", time_or_null(entry.started, offset)},
          {"completed_ns", time_or_null(entry.completed, offset)}};
}

Json json_of(const std::vector<FlightSnapshot::Group>& groups) {
  Json all = Json::array();
  for (const FlightSnapshot::Group& group : groups)
    all.push_back({{"name", group.name}, {"ranks", group.ranks}, {"calls", group.calls}});
  return all;
}

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string text_at(const Json& json, const char* key) {
  return json.at(key).is_string() ? json.at(key).get<std::string>() : "";
}

std::optional<Dtype> dtype_at(const Json& json) {
  const std::string name = text_at(json, "dtype");
  if (name.empty()) return std::nullopt;
  return parse_dtype(name, "report");
}

std::optional<FlightEntry> parse_entry(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const auto number = [&](const char* key, auto otherwise) {
    return json.at(key).is_null() ? otherwise : json.at(key).get<decltype(otherwise)>();
  };
  FlightEntry entry;
  entry.sequence = number("sequence", std::uint64_t{0});
  entry.operation = text_at(json, "operation");
  entry.unit = text_at(json, "unit");
  entry.group = text_at(json, "group");
  entry.call = number("group_call", std::uint64_t{0});
  entry.peer = number("peer", -1);
  entry.bytes.count = number("bytes", std::int64_t{0});
  entry.dtype = dtype_at(json);
  return entry;
}

}  // namespace

std::string to_json(const FlightRecord& record) {
  const Duration offset = unix_offset();
  Json entries = Json::array();
  for (const FlightEntry& entry : record.snapshot.entries)
    entries.push_back(json_of(entry, offset));
  return text_of(Json{{"schema", "shardscope.flight/1"},
                      {"rank", record.rank},
                      {"world", record.world},
                      {"deadline_ns", record.deadline.ns},
                      {"late_ranks", record.verdict.late},
                      {"cause", record.verdict.cause},
                      {"doing", record.verdict.doing},
                      {"groups", json_of(record.snapshot.groups)},
                      {"operations", std::move(entries)}},
                 1) +
         "\n";
}

std::string to_json(const Verdict& verdict) {
  return text_of(Json{{"late", verdict.late},
                      {"cause", verdict.cause},
                      {"doing", verdict.doing},
                      {"silent", verdict.silent},
                      {"answered", verdict.answered}},
                 -1);
}

std::optional<Verdict> parse_verdict(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    return Verdict{.late = json.at("late").get<std::vector<int>>(),
                   .cause = text_at(json, "cause"),
                   .doing = text_at(json, "doing"),
                   .silent = json.at("silent").get<std::vector<int>>(),
                   .answered = json.at("answered").get<int>()};
  } catch (const std::exception&) {  // not from this program
    return std::nullopt;
  }
}

std::string to_json(const RankStatement& report) {
  const auto entry = [](const std::optional<FlightEntry>& e) {
    return e ? json_of(*e, {}) : Json(nullptr);
  };
  Json json{{"doing", entry(report.doing)},
            {"last", entry(report.last)},
            {"groups", json_of(report.groups)}};
  std::string text = text_of(json, -1);
  if (text.size() <= store_value_limit) return text;
  // Only of thousands of ranks in irregular groups: without them the rank is still heard.
  json["groups"] = Json::array();
  return text_of(json, -1);
}

std::optional<RankStatement> parse_report(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    RankStatement report{
        .doing = parse_entry(json.at("doing")), .last = parse_entry(json.at("last")), .groups = {}};
    for (const Json& group : json.at("groups"))
      report.groups.push_back({.name = group.at("name").get<std::string>(),
                               .ranks = group.at("ranks").get<std::vector<int>>(),
                               .calls = group.at("calls").get<std::uint64_t>()});
    return report;
  } catch (const std::exception&) {  // not from this program
    return std::nullopt;
  }
}

}  // namespace shardscope
