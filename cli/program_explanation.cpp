#include "cli/program_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <vector>

#include "cli/name_pattern.h"
#include "cli/table.h"
#include "core/base/grouped.h"
#include "sim/planner/peak_advice.h"

namespace shardscope {
namespace {

constexpr std::size_t most_rows = 24;

/// The name that a module or parameter has in the model, its numbers as "*".
std::string shown_name(std::string_view name) {
  std::string text = without_indices(name);
  for (const std::string_view wrapper : {"._checkpoint_wrapped_module", "._fsdp_wrapped_module"})
    for (std::size_t at = text.find(wrapper); at != std::string::npos; at = text.find(wrapper))
      text.erase(at, wrapper.size());
  return text;
}

std::string owner_of(const Schedule& schedule, OwnerId owner) {
  return owner ? shown_name(schedule.owners[owner.value]) : std::string();
}

/// "backward of model.layers.#.mlp", "optimizer", "(never)".
std::string moment_of(const Schedule& schedule, OperationId operation) {
  if (!operation) return "(never)";
  const Operation& op = schedule.at(operation);
  const std::string owner = owner_of(schedule, op.owner);
  const std::string phase(name_of(op.phase));
  return owner.empty() ? phase : fmt::format("{} of {}", phase, owner);
}

struct HolderGroup {
  std::string name;
  Holder holder;
  std::string until;
  std::int64_t count = 0;
  Bytes bytes;
};

/// What is gathered belongs to its unit, not to the module that happened to ask for it.
std::string holder_of(const Schedule& schedule, const Buffer& buffer) {
  const bool gathered = buffer.category == MemoryCategory::parameters && buffer.allocated_by;
  if (gathered && buffer.unit) return shown_name(schedule.units[buffer.unit.value].name);
  return owner_of(schedule, buffer.owner);
}

HolderGroup group_of(const Schedule& schedule, const Buffer& buffer) {
  const Phase phase = buffer.allocated_by ? schedule.at(buffer.allocated_by).phase : Phase::init;
  return {
      .name = shown_name(schedule.name(buffer)),
      .holder = {.category = buffer.category, .owner = holder_of(schedule, buffer), .phase = phase},
      .until = moment_of(schedule, buffer.freed_by)};
}

auto key_of(const HolderGroup& group) {
  return std::tie(group.holder.category, group.holder.owner, group.name, group.until);
}

std::vector<HolderGroup> groups_of(const Schedule& schedule, const ProgramContents& contents) {
  std::vector<HolderGroup> groups;
  for (const BufferId id : contents.buffers) {
    const Buffer& buffer = schedule.at(id);
    HolderGroup group = group_of(schedule, buffer);
    const auto less = [](const HolderGroup& a, const HolderGroup& b) {
      return key_of(a) < key_of(b);
    };
    auto place = std::lower_bound(groups.begin(), groups.end(), group, less);
    if (place == groups.end() || key_of(*place) != key_of(group))
      place = groups.insert(place, std::move(group));
    ++place->count;
    place->bytes += buffer.bytes;
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const HolderGroup& a, const HolderGroup& b) { return a.bytes > b.bytes; });
  return groups;
}

std::string share_of(Bytes part, Bytes whole) {
  return fmt::format("{:.1f}%", whole.count == 0 ? 0.0
                                                 : 100 * static_cast<double>(part.count) /
                                                       static_cast<double>(whole.count));
}

std::string category_table(const std::vector<HolderGroup>& groups, Bytes total,
                           const Painter& painter) {
  CategoryBytes sums;
  for (const HolderGroup& group : groups) sums[group.holder.category] += group.bytes;
  Table table({{"category"}, {"bytes", Align::right}, {"share", Align::right}});
  for (const MemoryCategory category : memory_categories)
    table.row({std::string(name_of(category)), rounded_text(sums[category]),
               share_of(sums[category], total)});
  return table.text(painter);
}

std::string group_table(const std::vector<HolderGroup>& groups, Bytes total,
                        const eager::TrainingSetup& setup, const Painter& painter) {
  Table table({{"held"},
               {"category"},
               {"of"},
               {"times", Align::right},
               {"bytes", Align::right},
               {"share", Align::right},
               {"until"},
               {"what would free it"}});
  const std::size_t shown = std::min(most_rows, groups.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const HolderGroup& group = groups[i];
    const std::string owner = group.holder.owner.empty() ? "(root)" : group.holder.owner;
    table.row({group.name, std::string(name_of(group.holder.category)), owner, grouped(group.count),
               rounded_text(group.bytes), share_of(group.bytes, total), group.until,
               std::string(advice(group.holder, setup))});
  }
  std::string text = table.text(painter);
  if (shown < groups.size()) {
    Bytes rest;
    for (std::size_t i = shown; i < groups.size(); ++i) rest += groups[i].bytes;
    text += fmt::format("and {} smaller ones, {}\n", groups.size() - shown, rounded_text(rest));
  }
  return text;
}

}  // namespace

std::string explain_contents(const Schedule& schedule, const ProgramContents& contents,
                             const eager::TrainingSetup& setup, const Painter& painter) {
  const std::vector<HolderGroup> groups = groups_of(schedule, contents);
  return category_table(groups, contents.total, painter) + "\n" +
         group_table(groups, contents.total, setup, painter);
}

std::string explain_program_peak(const Schedule& schedule, const eager::TrainingSetup& setup,
                                 const Painter& painter) {
  ProgramContents highest;
  const Step* at = nullptr;
  for (const Step& step : schedule.steps) {
    ProgramContents contents = contents_at_peak(schedule, step);
    if (at && contents.total <= highest.total) continue;
    highest = std::move(contents);
    at = &step;
  }
  if (!at) return "the schedule is empty\n";
  const std::string name =
      highest.operation
          ? fmt::format("after {} ({})", schedule.name(schedule.at(highest.operation)),
                        moment_of(schedule, highest.operation))
          : "before anything ran";
  return fmt::format("the peak of live bytes, {}, is in step {} {}; then live:\n\n",
                     rounded_text(highest.total), at->label, name) +
         explain_contents(schedule, highest, setup, painter);
}

}  // namespace shardscope
