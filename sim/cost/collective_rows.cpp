#include "sim/cost/collective_rows.h"

#include <algorithm>
#include <string>

#include "sim/cost/cost_model.h"

namespace shardscope {
namespace {

CollectiveSummary row_of(const Schedule& schedule, const Operation& op,
                         const CollectiveModel& model) {
  const Collective& collective = schedule.collectives[op.detail];
  const Group& group = schedule.groups[collective.group.value];
  const Bytes payload = payload_of(collective);
  const CollectiveCost cost = model.cost(op.kind, payload, group.ranks);
  return {.kind = std::string(name_of(op.kind)),
          .group = group.name,
          .ranks = static_cast<std::int64_t>(group.ranks.size()),
          .bytes = payload,
          .times = 0,
          .time = cost.time,
          .algorithm = std::string(cost.algorithm),
          .protocol = std::string(cost.protocol),
          .channels = cost.channels};
}

bool alike(const CollectiveSummary& a, const CollectiveSummary& b) {
  return a.kind == b.kind && a.group == b.group && a.bytes == b.bytes;
}

}  // namespace

std::vector<CollectiveSummary> collective_rows(const Schedule& schedule,
                                               const HardwareProfile& profile) {
  std::vector<CollectiveSummary> rows;
  if (schedule.steps.empty()) return rows;
  const CollectiveModel model(profile);
  const IndexRange steady = schedule.steps.back().operations;
  for (std::uint32_t i = steady.begin; i < steady.end; ++i) {
    const Operation& op = schedule.operations[i];
    if (!is_collective(op.kind)) continue;
    CollectiveSummary row = row_of(schedule, op, model);
    if (row.ranks <= 1) continue;
    auto found = std::ranges::find_if(
        rows, [&](const CollectiveSummary& other) { return alike(other, row); });
    if (found == rows.end()) found = rows.insert(rows.end(), std::move(row));
    ++found->times;
  }
  return rows;
}

}  // namespace shardscope
