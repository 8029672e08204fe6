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

}  // namespace shardscope
