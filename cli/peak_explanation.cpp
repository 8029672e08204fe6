#include "cli/peak_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cli/name_pattern.h"
#include "cli/table.h"
#include "core/base/grouped.h"
#include "core/base/quantities.h"

namespace shardscope {
namespace {

struct BufferGroup {
  std::string name;
  MemoryCategory category = MemoryCategory::parameters;
  std::int64_t count = 0;
  Bytes bytes;
};

std::size_t peak_operation(const std::vector<CategoryBytes>& live) {
  const auto less = [](const CategoryBytes& a, const CategoryBytes& b) {
    return a.total() < b.total();
  };
  return static_cast<std::size_t>(std::max_element(live.begin(), live.end(), less) - live.begin());
}

bool lives_at(const Buffer& buffer, OperationId operation) {
  return (!buffer.allocated_by || buffer.allocated_by <= operation) &&
         (!buffer.freed_by || operation <= buffer.freed_by);
}

std::vector<BufferGroup> groups_at(const Schedule& schedule, OperationId operation) {
  std::vector<BufferGroup> groups;
  for (const Buffer& buffer : schedule.buffers) {
    if (!lives_at(buffer, operation)) continue;
    const std::string name = without_indices(schedule.name(buffer));
    const auto same = [&](const BufferGroup& group) {
      return group.name == name && group.category == buffer.category;
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end())
      group = groups.insert(group, {.name = name, .category = buffer.category});
    ++group->count;
    group->bytes += buffer.bytes;
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const BufferGroup& a, const BufferGroup& b) { return a.bytes > b.bytes; });
  return groups;
}

}  // namespace

std::string explain_peak(const Schedule& schedule, const Painter& painter) {
  const std::vector<CategoryBytes> live = live_bytes(schedule);
  if (live.empty()) return "the schedule is empty\n";
  const std::size_t peak = peak_operation(live);
  const Operation& op = schedule.operations[peak];
  const double total = static_cast<double>(live[peak].total().count);

  Table table({{"buffers"},
               {"category"},
               {"times", Align::right},
               {"bytes", Align::right},
               {"share", Align::right}});
  for (const BufferGroup& group : groups_at(schedule, OperationId::of(peak))) {
    table.row({group.name, std::string(name_of(group.category)), grouped(group.count),
               rounded_text(group.bytes),
               fmt::format("{:.1f}%", 100 * static_cast<double>(group.bytes.count) / total)});
  }
  return fmt::format("the peak, {}, is at operation {} ({}, {}); then live:\n\n{}",
                     rounded_text(live[peak].total()), peak, schedule.name(op), name_of(op.phase),
                     table.text(painter));
}

}  // namespace shardscope
