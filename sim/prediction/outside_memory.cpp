#include "sim/prediction/outside_memory.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "sim/prediction/band.h"

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

/// The bytes of a profile's figure, and how well it is known.
OutsideFigure figure_of(const HardwareProfile& profile, std::string_view figure, std::string item,
                        Bytes bytes) {
  const auto found = profile.provenance.find(figure);
  if (found == profile.provenance.end())
    return {.item = {.item = std::move(item), .bytes = bytes, .source = "not known"}};
  const Provenance& of = found->second;
  return {.item = {.item = std::move(item),
                   .bytes = bytes,
                   .source = fmt::format("{}: {}", name_of(of.origin), of.source)},
          .spread = spread_of(of)};
}

}  // namespace

std::vector<OutsideFigure> outside_figures(const Schedule& schedule,
                                           const HardwareProfile& profile) {
  return outside_figures(communicators_of(schedule), profile);
}

std::vector<OutsideFigure> outside_figures(std::int64_t communicators,
                                           const HardwareProfile& profile) {
  return {figure_of(profile, "context_memory", "CUDA context and kernels",
                    profile.context_memory.value_or(Bytes{})),
          figure_of(profile, "communicator_memory",
                    fmt::format("NCCL's buffers of {} communicator{}", communicators,
                                communicators == 1 ? "" : "s"),
                    profile.communicator_memory.value_or(Bytes{}) * communicators),
          {.item = {.item = "library workspaces",
                    .bytes = {},
                    .source = "PyTorch takes cuBLAS's from its allocator: category workspace"}}};
}

std::vector<OutsideItem> outside_items(const Schedule& schedule, const HardwareProfile& profile) {
  std::vector<OutsideItem> items;
  for (OutsideFigure& figure : outside_figures(schedule, profile))
    items.push_back(std::move(figure.item));
  return items;
}

Bytes outside_bytes(const Schedule& schedule, const HardwareProfile& profile) {
  Bytes sum;
  for (const OutsideItem& item : outside_items(schedule, profile)) sum += item.bytes;
  return sum;
}

}  // namespace shardscope
