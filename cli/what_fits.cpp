#include "cli/what_fits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/native/resolved_strategy.h"

namespace shardscope {
namespace {

Bytes arena_of(const NativeScenario& scenario, const DeviceKind& device) {
  return arena_layout(schedule_of(scenario, device)).size;
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
                                          Bytes available) {
  std::int64_t fits = 0, too_large = scenario.workload.batch;
  while (too_large - fits > 1) {
    const std::int64_t middle = fits + (too_large - fits) / 2;
    (arena_of(with_batch(scenario, middle), device) <= available ? fits : too_large) = middle;
  }
  return fits > 0 ? std::optional(fits) : std::nullopt;
}

/// The native strategies that shard more than the scenario's, on their usual mesh.
std::vector<NativeScenario> sharded_more(const NativeScenario& scenario) {
  std::vector<NativeScenario> result;
  if (scenario.world == 1) return result;
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
                                     Bytes available) {
  std::vector<FittingChange> fits;
  const auto add_if_it_fits = [&](std::string option, const NativeScenario& changed) {
    const Bytes arena = arena_of(changed, device);
    if (arena <= available) fits.push_back({std::move(option), arena});
    return arena <= available;
  };
  const auto add_largest_batch = [&](const NativeScenario& changed, std::string_view also) {
    if (const auto batch = largest_batch(changed, device, available))
      add_if_it_fits(fmt::format("--batch {}{}", *batch, also), with_batch(changed, *batch));
  };
  add_largest_batch(scenario, "");
  const bool checkpoints = scenario.strategy.checkpointing == full_checkpointing;
  if (!checkpoints) add_if_it_fits("--checkpointing full", with_checkpointing(scenario));
  for (const NativeScenario& other : sharded_more(scenario))
    if (add_if_it_fits(fmt::format("--strategy {}", name_of(other.strategy.sharding)), other))
      break;
  if (fits.empty() && !checkpoints)
    add_largest_batch(with_checkpointing(scenario), " --checkpointing full");
  return fits;
}

void require_fit(const NativeScenario& scenario, const DeviceKind& device,
                 const RoomForArena& room) {
  const Bytes arena = arena_of(scenario, device);
  if (arena <= room.available) return;
  std::vector<std::string> ways;
  for (const FittingChange& fit : what_fits(scenario, device, room.available))
    ways.push_back(fmt::format("{} ({})", fit.option, rounded_text(fit.arena)));
  throw Error(
      {.where = room.where,
       .what = fmt::format("an arena of {} does not fit in the {}", rounded_text(arena), room.room),
       .way_out = ways.empty() ? "a shorter --seq, a smaller model or more ranks"
                               : fmt::format("{} would fit", fmt::join(ways, ", or ")),
       .code = ExitCode::no});
}

}  // namespace shardscope
