#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "traces/differences.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_value(const PeerWaitTotals& waits) {
  Json last = Json::array();
  for (const auto& [rank, times] : waits.times_last)
    last.push_back({{"rank", rank}, {"times", times}});
  return {{"collectives", waits.collectives},
          {"waiting_ns", waits.waiting.ns},
          {"moving_ns", waits.moving.ns},
          {"bytes", waits.bytes.count},
          {"last", last}};
}

Json to_value(const RankTime& rank) {
  return {{"rank", rank.rank},
          {"span_ns", rank.time.span.ns},
          {"compute_ns", rank.time.compute.ns},
          {"exposed_communication_ns", rank.time.exposed_communication.ns},
          {"exposed_copy_ns", rank.time.exposed_copy.ns},
          {"idle_ns", rank.time.idle.ns},
          {"waits", rank.waits ? to_value(*rank.waits) : Json(nullptr)}};
}

Json to_value(const MemoryHolder& holder) {
  Json value{{"owner", holder.owner}, {"place", name_of(holder.place)}};
  if (holder.planned) value["planned_bytes"] = holder.planned->count;
  if (holder.held) value["held_bytes"] = holder.held->count;
  if (holder.recorded) value["recorded_bytes"] = holder.recorded->count;
  return value;
}

Json to_value(const OperationDifference& one) {
  return {{"id", one.operation.value},
          {"name", one.name},
          {"kind", name_of(one.kind)},
          {"phase", name_of(one.phase)},
          {"unit", one.unit},
          {"predicted_ns", one.duration.predicted.value.ns},
          {"profiled_ns", one.duration.profiled.value.ns},
          {"predicted_gap_ns", one.gap.predicted.value.ns},
          {"profiled_gap_ns", one.gap.profiled.value.ns},
          {"predicted_bytes", one.bytes.predicted.value.count},
          {"profiled_bytes", one.bytes.profiled.value.count},
          {"difference_ns", one.difference().ns}};
}

Json with_cause(const OperationDifference& one) {
  Json value = to_value(one);
  value["cause"] = name_of(one.cause.kind);
  value["rank"] = or_null(one.cause.rank);
  value["reason"] = one.cause.reason;
  return value;
}

Json to_value(const RecordingFacts& recording) {
  Json memory = Json::array();
  for (const MemoryHolder& holder : recording.memory) memory.push_back(to_value(holder));
  const Duration* residual = recording.clock_residual ? &*recording.clock_residual : nullptr;
  return {{"clock", recording.clock},
          {"clock_residual_ns", residual != nullptr ? Json(residual->ns) : Json(nullptr)},
          {"dropped_records", recording.dropped_records},
          {"notes", recording.notes},
          {"memory", memory}};
}

Json to_value(const CategoryBytes& bytes) {
  Json value = Json::object();
  for (const MemoryCategory category : memory_categories)
    value[fmt::format("{}_bytes", name_of(category))] = bytes[category].count;
  return value;
}

}  // namespace

std::string to_json(const Differences& differences) {
  Json json{{"schema", "shardscope.comparison/1"},
            {"steps", differences.steps},
            {"step_time", nullptr},
            {"exposed_communication", nullptr},
            {"ranks", Json::array()},
            {"missing", Json::array()},
            {"largest", Json::array()},
            {"operations", Json::array()},
            {"only_predicted", differences.only_predicted},
            {"only_profiled", differences.only_profiled},
            {"recording", to_value(differences.recording)},
            {"at_peak", to_value(differences.at_peak)}};
  const SideBySide<Duration>& time = differences.step_time;
  const Json predicted = differences.has_prediction ? Json(time.predicted.value.ns) : Json(nullptr);
  json["step_time"] = {
      {"predicted_ns", predicted},
      {"profiled_ns", time.profiled.value.ns},
      {"error_share", differences.has_prediction ? or_null(error_share(time)) : Json(nullptr)}};
  json["exposed_communication"] = {
      {"predicted_ns", differences.has_prediction
                           ? Json(differences.exposed_communication.predicted.value.ns)
                           : Json(nullptr)},
      {"profiled_ns", differences.exposed_communication.profiled.value.ns}};
  for (const RankTime& rank : differences.ranks) json["ranks"].push_back(to_value(rank));
  for (const MissingTrace& one : differences.missing)
    json["missing"].push_back({{"rank", one.rank}, {"reason", one.reason}});
  for (const auto& one : differences.largest) json["largest"].push_back(with_cause(one));
  for (const auto& one : differences.operations) json["operations"].push_back(to_value(one));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope
