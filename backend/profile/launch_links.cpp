#include "backend/profile/launch_links.h"

#include <algorithm>

namespace shardscope {
namespace {

constexpr int step_shift = 32;

const ExternalLink* find(const std::vector<ExternalLink>& links, std::uint32_t correlation) {
  const auto found =
      std::ranges::lower_bound(links, correlation, std::ranges::less{}, &ExternalLink::correlation);
  return found != links.end() && found->correlation == correlation ? &*found : nullptr;
}

const Stay* stay_at(std::span<const Stay> stays, std::int64_t moment_ns) {
  const auto after =
      std::ranges::upper_bound(stays, moment_ns, std::ranges::less{}, &Stay::begin_ns);
  if (after == stays.begin() || (after - 1)->end_ns < moment_ns) return nullptr;
  return &*(after - 1);
}

}  // namespace

/// No operation is the largest number, and that plus one is 0.
std::uint64_t external_id_of(LaunchPlace place) {
  const auto step = static_cast<std::uint64_t>(static_cast<std::uint32_t>(place.step));
  return step << step_shift | static_cast<std::uint32_t>(place.operation.value + 1);
}

LaunchPlace place_of(std::uint64_t external_id) {
  return {.operation = {static_cast<std::uint32_t>(external_id) - 1},
          .step = static_cast<std::int32_t>(external_id >> step_shift)};
}

void GraphNodes::cloned(std::uint64_t original, std::uint64_t clone) {
  if (const auto found = operations_.find(original); found != operations_.end())
    operations_[clone] = found->second;
}

OperationId GraphNodes::operation_of(std::uint64_t node) const {
  const auto found = operations_.find(node);
  return found == operations_.end() ? OperationId{} : found->second;
}

void link_records(std::span<DeviceRecord> records, std::vector<ExternalLink> links,
                  const GraphNodes& nodes) {
  std::ranges::stable_sort(links, std::ranges::less{}, &ExternalLink::correlation);
  for (DeviceRecord& record : records) {
    if (const ExternalLink* link = find(links, record.correlation)) {
      const LaunchPlace place = place_of(link->external_id);
      record.operation = place.operation;
      record.step = place.step;
    }
    if (record.graph_node != 0) record.operation = nodes.operation_of(record.graph_node);
  }
}

void link_by_time(std::span<DeviceRecord> records, std::vector<CallMoment> calls,
                  std::span<const Stay> stays) {
  if (stays.empty()) return;
  std::ranges::stable_sort(calls, std::ranges::less{}, &CallMoment::correlation);
  for (DeviceRecord& record : records) {
    if (!is_device_work(record.kind) || record.step != 0 || record.correlation == 0) continue;
    const auto call = std::ranges::lower_bound(calls, record.correlation, std::ranges::less{},
                                               &CallMoment::correlation);
    if (call == calls.end() || call->correlation != record.correlation) continue;
    if (const Stay* stay = stay_at(stays, call->start_ns)) {
      record.operation = stay->place.operation;
      record.step = stay->place.step;
    }
  }
}

}  // namespace shardscope
