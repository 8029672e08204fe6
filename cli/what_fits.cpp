#include "cli/what_fits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/native/resolved_strategy.h"

namespace shardscope {
namespace {

/// Of the ranks whose arenas lie in the room.
Bytes needed(const NativeScenario& scenario, const DeviceKind& device, const RoomForArenas& room) {
  const std::vector<Schedule> schedules = schedules_of_stages(scenario, device);
  if (room.stages.empty()) return largest_arena(schedules);
  std::vector<Bytes> arenas;
  for (const Schedule& schedule : schedules) arenas.push_back(arena_layout(schedule).size);
  Bytes sum;
  for (const int stage : room.stages) sum += arenas[static_cast<std::size_t>(stage)];
  return sum;
}

bool fits(const NativeScenario& scenario, const DeviceKind& device, const RoomForArenas& room) {
  if (room.stages.empty()) return arenas_fit(schedules_of_stages(scenario, device), room.available);
  return needed(scenario, device, room) <= room.available;
}

NativeScenario with_batch(NativeScenario scenario, std::int64_t batch) {
  scenario.workload.batch = batch;
  return scenario;
}

NativeScenario with_checkpointing(NativeScenario scenario) {
  scenario.strategy.checkpointing = full_checkpointing;
  scenario.job.memory_budget = {};  // which would choose another
  return scenario;
}

/// Arenas grow with the micro-batch, so that the largest that fits is found by halving.
std::optional<std::int64_t> largest_batch(const NativeScenario& scenario, const DeviceKind& device,
                                          const RoomForArenas& room) {
  std::int64_t small = 0, too_large = scenario.workload.batch;
  while (too_large - small > 1) {
    const std::int64_t middle = small + (too_large - small) / 2;
    (fits(with_batch(scenario, middle), device, room) ? small : too_large) = middle;
  }
  return small > 0 ? std::optional(small) : std::nullopt;
}

/// The native strategies that shard more than the scenario's, on their usual mesh. None beside a
/// pipeline, which needs another --mesh as well.
std::vector<NativeScenario> sharded_more(const NativeScenario& scenario) {
  std::vector<NativeScenario> result;
  if (scenario.world == 1 || scenario.strategy.mesh.pipeline > 1) return result;
  for (const ShardingStrategy sharding :
       {ShardingStrategy::zero1, ShardingStrategy::shard_grad_op, ShardingStrategy::full_shard}) {
    NativeScenario other = scenario;
    other.strategy.sharding = sharding;
    other.strategy.mesh = {};
    other.strategy = resolved(other.strategy, scenario.world, "--strategy");
    result.push_back(std::move(other));
  }
  return result;
}

}  // namespace

std::vector<FittingChange> what_fits(const NativeScenario& scenario, const DeviceKind& device,
                                     const RoomForArenas& room) {
  std::vector<FittingChange> fitting;
  const auto add_if_it_fits = [&](std::string option, const NativeScenario& changed) {
    const Bytes bytes = needed(changed, device, room);
    if (bytes <= room.available) fitting.push_back({std::move(option), bytes});
    return bytes <= room.available;
  };
  const auto add_largest_batch = [&](const NativeScenario& changed, std::string_view also) {
    if (const auto batch = largest_batch(changed, device, room))
      add_if_it_fits(fmt::format("--batch {}{}", *batch, also), with_batch(changed, *batch));
  };
  add_largest_batch(scenario, "");
  const bool checkpoints = scenario.strategy.checkpointing == full_checkpointing;
  if (!checkpoints) add_if_it_fits("--checkpointing full", with_checkpointing(scenario));
  for (const NativeScenario& other : sharded_more(scenario))
    if (add_if_it_fits(fmt::format("--strategy {}", name_of(other.strategy.sharding)), other))
      break;
  if (fitting.empty() && !checkpoints)
    add_largest_batch(with_checkpointing(scenario), " --checkpointing full");
  return fitting;
}

void require_fit(const NativeScenario& scenario, const DeviceKind& device,
                 const RoomForArenas& room) {
  if (fits(scenario, device, room)) return;
  std::vector<std::string> ways;
  for (const FittingChange& change : what_fits(scenario, device, room))
    ways.push_back(fmt::format("{} ({})", change.option, rounded_text(change.needed)));
  const std::string bytes = rounded_text(needed(scenario, device, room));
  throw Error(
      {.where = room.where,
       .what = room.stages.size() < 2
                   ? fmt::format("an arena of {} does not fit in the {}", bytes, room.room)
                   : fmt::format("the arenas of {} ranks, {} together, do not fit in the {}",
                                 room.stages.size(), bytes, room.room),
       .way_out = ways.empty() ? "a shorter --seq, a smaller model or more ranks"
                               : fmt::format("{} would fit", fmt::join(ways, ", or ")),
       .code = ExitCode::no});
}

}  // namespace shardscope
