#include "cli/schedule_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/table.h"
#include "core/base/grouped.h"
#include "core/base/quantities.h"
#include "traces/predicted_buffers.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

std::string unit_name(const Schedule& schedule, UnitId unit) {
  if (!unit) return "-";
  const std::string& name = schedule.units[unit.value].name;
  return name.empty() ? "(root)" : name;
}

/// The operation's name without what its row says already: the unit, and of a collective all but
/// its kind.
std::string short_name(const Schedule& schedule, const Operation& op) {
  if (is_collective(op.kind)) return std::string(name_of(op.kind));
  const std::string_view name = schedule.name(op);
  if (!op.unit) return std::string(name);
  const std::string& unit = schedule.units[op.unit.value].name;
  const bool repeats = !unit.empty() && name.size() > unit.size() && name.starts_with(unit) &&
                       name[unit.size()] == '.';
  return std::string(repeats ? name.substr(unit.size()) : name);
}

Json unit_json(const Schedule& schedule, UnitId unit) {
  return unit ? Json(schedule.units[unit.value].name) : Json(nullptr);
}

Json streams_json() {
  Json result = Json::array();
  for (int i = 0; i < stream_count; ++i) {
    result.push_back({{"id", i}, {"name", name_of(static_cast<Stream>(i))}});
  }
  return result;
}

/// A list; of very many evenly spaced ones, what they follow from.
Json ranks_json(const Ranks& ranks) {
  constexpr std::size_t most_listed = 4096;
  if (ranks.size() <= most_listed || !ranks.stride()) return ranks.list();
  return {{"first", ranks.front()}, {"stride", *ranks.stride()}, {"count", ranks.size()}};
}

Json operation_json(const Schedule& schedule, std::size_t index) {
  const Operation& op = schedule.operations[index];
  Json after = Json::array();
  for (const OperationId id : schedule.after_of(op)) after.push_back(id.value);
  Json result{{"id", index},
              {"name", schedule.name(op)},
              {"kind", name_of(op.kind)},
              {"stream", static_cast<int>(op.stream)},
              {"phase", name_of(op.phase)},
              {"step", schedule.steps[static_cast<std::size_t>(op.step)].label},
              {"micro_batch", op.micro_batch},
              {"unit", unit_json(schedule, op.unit)},
              {"after", std::move(after)},
              {"bytes", op.bytes.count},
              {"flops", op.flops.count}};
  if (is_collective(op.kind)) {
    const Collective& collective = schedule.collectives[op.detail];
    result["group"] = ranks_json(schedule.groups[collective.group.value].ranks);
    result["elements_in"] = collective.elements_in;
    result["elements_out"] = collective.elements_out;
    result["dtype"] = name_of(collective.dtype);
  }
  return result;
}

Json operations_json(const Schedule& schedule, bool collectives_only) {
  Json result = Json::array();
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    if (!collectives_only || is_collective(schedule.operations[i].kind))
      result.push_back(operation_json(schedule, i));
  }
  return result;
}

std::string flops_text(Flops flops) {
  if (flops.count == 0) return "";
  std::string rate = rounded_text(FlopRate{static_cast<double>(flops.count)});
  return rate.substr(0, rate.find("/s"));
}

/// The ids of what an operation waits for, the first few of many.
std::string after_text(const Schedule& schedule, const Operation& op) {
  constexpr std::size_t shown = 3;
  const auto after = schedule.after_of(op);
  std::vector<std::uint32_t> ids;
  for (const OperationId id : after.first(std::min(shown, after.size()))) ids.push_back(id.value);
  std::string text = fmt::format("{}", fmt::join(ids, " "));
  if (after.size() > shown) text += fmt::format(" +{}", after.size() - shown);
  return text;
}

std::string ranks_text(const Group& group) {
  if (group.ranks.size() <= 8) return fmt::format("{}", fmt::join(group.ranks.list(), ","));
  return fmt::format("{},{},..{} ({})", group.ranks[0], group.ranks[1], group.ranks.back(),
                     group.ranks.size());
}

}  // namespace

std::string schedule_json(const Schedule& schedule, bool collectives_only) {
  const Json json{{"schema", "shardscope.schedule/1"},
                  {"strategy", name_of(schedule.strategy.sharding)},
                  {"runtime", name_of(schedule.strategy.runtime)},
                  {"mesh", text_of(schedule.strategy.mesh)},
                  {"world", schedule.world},
                  {"rank", schedule.rank},
                  {"streams", streams_json()},
                  {"operations", operations_json(schedule, collectives_only)},
                  {"buffers", Json::parse(buffers_json(schedule))},
                  {"arena_bytes", arena_layout(schedule).size.count},
                  {"assumed", schedule.assumed}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string schedule_table(const Schedule& schedule, const Painter& painter) {
  Table table({{"id", Align::right},
               {"stream"},
               {"phase"},
               {"unit"},
               {"operation"},
               {"bytes", Align::right},
               {"flops", Align::right},
               {"after"},
               {"live", Align::right}});
  const std::vector<CategoryBytes> live = live_bytes(schedule);
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    const Paint paint = is_collective(op.kind) ? Paint::warning : Paint::plain;
    table.row({std::to_string(i), std::string(name_of(op.stream)), std::string(name_of(op.phase)),
               unit_name(schedule, op.unit), Cell(short_name(schedule, op), paint),
               rounded_text(op.bytes), flops_text(op.flops),
               Cell(after_text(schedule, op), Paint::dim), rounded_text(live[i].total())});
  }
  return table.text(painter);
}

std::string program_table(const Schedule& schedule, const Painter& painter) {
  Table table({{"id", Align::right},
               {"step"},
               {"stream"},
               {"phase"},
               {"module"},
               {"operation"},
               {"bytes", Align::right},
               {"flops", Align::right}});
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    const Paint paint = is_collective(op.kind) ? Paint::warning : Paint::plain;
    const bool is_setup = op.phase == Phase::init;
    table.row({std::to_string(i),
               is_setup ? "-" : schedule.steps[static_cast<std::size_t>(op.step)].label,
               std::string(name_of(op.stream)), std::string(name_of(op.phase)),
               op.owner ? schedule.owners[op.owner.value] : std::string(),
               Cell(short_name(schedule, op), paint), rounded_text(op.bytes),
               flops_text(op.flops)});
  }
  return table.text(painter);
}

std::string collectives_table(const Schedule& schedule, const Painter& painter) {
  Table table({{"id", Align::right},
               {"stream"},
               {"phase"},
               {"unit"},
               {"collective"},
               {"ranks"},
               {"elements in", Align::right},
               {"out", Align::right},
               {"dtype"},
               {"payload", Align::right}});
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    if (!is_collective(op.kind)) continue;
    const Collective& collective = schedule.collectives[op.detail];
    table.row({std::to_string(i), std::string(name_of(op.stream)), std::string(name_of(op.phase)),
               unit_name(schedule, op.unit), std::string(name_of(op.kind)),
               ranks_text(schedule.groups[collective.group.value]), grouped(collective.elements_in),
               grouped(collective.elements_out), std::string(name_of(collective.dtype)),
               rounded_text(op.bytes)});
  }
  return table.text(painter);
}

}  // namespace shardscope
