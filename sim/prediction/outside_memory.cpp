#include "sim/prediction/outside_memory.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

namespace shardscope {
namespace {

/// Communicators of more than one rank that collectives use.
std::int64_t communicators_of(const Schedule& schedule) {
  std::set<std::uint32_t> used;
  for (const Operation& op : schedule.operations)
    if (is_collective(op.kind)) {
      const GroupId group = schedule.collectives[op.detail].group;
      if (schedule.groups[group.value].ranks.size() > 1) used.insert(group.value);
    }
  return static_cast<std::int64_t>(used.size());
}

std::string source_of(const HardwareProfile& profile, std::string_view figure) {
  const auto found = profile.provenance.find(figure);
  if (found == profile.provenance.end()) return "not known";
  return fmt::format("{}: {}", name_of(found->second.origin), found->second.source);
}

}  // namespace

std::vector<OutsideItem> outside_items(const Schedule& schedule, const HardwareProfile& profile) {
  std::vector<OutsideItem> items;
  items.push_back({.item = "CUDA context and kernels",
                   .bytes = profile.context_memory.value_or(Bytes{}),
                   .source = source_of(profile, "context_memory")});
  const std::int64_t communicators = communicators_of(schedule);
  items.push_back({.item = fmt::format("NCCL's buffers of {} communicator{}", communicators,
                                       communicators == 1 ? "" : "s"),
                   .bytes = profile.communicator_memory.value_or(Bytes{}) * communicators,
                   .source = source_of(profile, "communicator_memory")});
  items.push_back({.item = "library workspaces",
                   .bytes = {},
                   .source = "PyTorch takes cuBLAS's from its allocator: category workspace"});
  return items;
}

Bytes outside_bytes(const Schedule& schedule, const HardwareProfile& profile) {
  Bytes sum;
  for (const OutsideItem& item : outside_items(schedule, profile)) sum += item.bytes;
  return sum;
}

}  // namespace shardscope
