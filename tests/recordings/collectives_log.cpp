#include "tests/recordings/collectives_log.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardscope::recordings {
namespace {

using Json = EventLog::Json;

Json position(const std::map<eager::EventId, std::optional<std::size_t>>& recorded_at,
              eager::EventId event) {
  const auto at = recorded_at.find(event);
  return at == recorded_at.end() || !at->second ? Json() : Json(*at->second);
}

bool is_functional(const eager::CollectiveCall& call) {
  return call.name.starts_with("_c10d_functional");
}

}  // namespace

EventLog::EventLog(const eager::ProcessGroups& groups) : all_groups_(groups) {
  short_name(GroupId::of(0));
  name_stream(eager::default_stream, "default");
}

std::optional<std::size_t> EventLog::add(const char* kind, const Json& fields) {
  if (!on) return std::nullopt;
  const std::size_t place = events_.size();
  Json event{{"i", place}, {"ev", kind}};
  event.update(fields);
  events_.push_back(std::move(event));
  return place;
}

void EventLog::phase(const std::string& name, std::optional<int> iteration,
                     std::optional<int> micro_batch) {
  phase_ = name;
  buckets_ = 0;
  iteration_ = iteration.value_or(iteration_);
  micro_batch_ = micro_batch.value_or(micro_batch_);
  add("phase", {{"ph", phase_}, {"it", iteration_}, {"mb", micro_batch_}});
}

void EventLog::enter(const std::string& site, std::optional<std::string> unit) {
  sites_.push_back({.site = site, .unit = std::move(unit)});
}

Json EventLog::unit() const {
  for (auto running = sites_.rbegin(); running != sites_.rend(); ++running)
    if (running->unit) return *running->unit;
  return {};
}

std::string EventLog::site() const {
  std::string path;
  for (const Running& running : sites_) path += (path.empty() ? "" : "/") + running.site;
  return path;
}

std::string EventLog::name_of(eager::StreamId stream) const {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? fmt::format("s{}", stream.value - 1) : at->second;
}

std::string EventLog::short_name(GroupId group) {
  const auto at = std::find(used_groups_.begin(), used_groups_.end(), group);
  const auto place = at - used_groups_.begin();
  if (at == used_groups_.end()) used_groups_.push_back(group);
  return fmt::format("pg{}", place);
}

Json EventLog::groups() const {
  Json groups = Json::object();
  for (std::size_t i = 0; i < used_groups_.size(); ++i)
    groups[fmt::format("pg{}", i)] = all_groups_.all()[used_groups_[i].value].ranks.list();
  return groups;
}

Json EventLog::unit_of(const eager::CollectiveCall& call) {
  if (!counts_buckets || !in_backward() || call.kind != OperationKind::all_reduce) return unit();
  if (call.dtype == Dtype::int32) return "unused_map";
  return fmt::format("bucket{}", buckets_++);
}

void EventLog::on_collective(eager::Session&, const eager::CollectiveCall& call) {
  Json event{{"n", collectives_},
             {"kind", shardscope::name_of(call.kind)},
             {"unit", unit_of(call)},
             {"pg", short_name(call.group)},
             {"ranks", all_groups_.all()[call.group.value].ranks.list()},
             {"in", call.elements_in},
             {"out", call.elements_out},
             {"dtype", shardscope::name_of(call.dtype)}};
  if (!call.reduction.empty()) event["op"] = call.reduction;
  if (call.root >= 0) event["root"] = call.root;
  if (!is_functional(call)) event["async"] = call.asynchronous;
  event["stream"] = name_of(call.stream);
  event["ph"] = phase_;
  std::string where = site();
  if (call.kind == OperationKind::barrier) where += where.empty() ? "barrier" : "/barrier";
  event["site"] = where;
  if (on) ++collectives_;
  add("coll", event);
}

void EventLog::on_event_record(eager::Session&, eager::EventId event, eager::StreamId stream) {
  recorded_at_[event] = add("record", {{"e", event.value}, {"s", name_of(stream)}});
}

void EventLog::on_event_wait(eager::Session&, eager::EventId event, eager::StreamId waiting) {
  add("wait_event", {{"s", name_of(waiting)},
                     {"e", event.value},
                     {"recorded_at", position(recorded_at_, event)}});
}

void EventLog::on_stream_wait(eager::Session&, eager::StreamId waiting, eager::StreamId of) {
  add("wait_stream", {{"s", name_of(waiting)}, {"on", name_of(of)}});
}

void EventLog::on_host_wait(eager::Session&, eager::EventId event) {
  add("host_wait", {{"e", event.value},
                    {"recorded_at", position(recorded_at_, event)},
                    {"site", site()},
                    {"unit", unit()}});
}

void EventLog::on_mark(eager::Session&, const eager::Mark& mark) {
  if (mark.what == "wait_tensor") add("wait_tensor", {{"numel", mark.number}});
  if (mark.what == "enter") enter(std::string(mark.subject));
  if (mark.what == "leave") leave();
}

}  // namespace shardscope::recordings
