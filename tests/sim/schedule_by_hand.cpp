#include "tests/sim/schedule_by_hand.h"

#include <fmt/format.h>

#include <utility>

#include "core/native/issue_order.h"
#include "sim/engine/program_player.h"
#include "sim/engine/timed_device.h"

namespace shardscope::testing {

OperationId ScheduleByHand::add(const Op& op) {
  const auto id = OperationId::of(schedule_.operations.size());
  if (schedule_.steps.empty()) {
    schedule_.steps.push_back({.label = "steady"});
    schedule_.groups.push_back({.name = "world", .ranks = {0, 1}});
    schedule_.collectives.push_back({.group = GroupId::of(0), .elements_in = 1, .elements_out = 2});
    schedule_.kernels.push_back({});
  }
  const auto begin = static_cast<std::uint32_t>(schedule_.after.size());
  schedule_.after.insert(schedule_.after.end(), op.after.begin(), op.after.end());
  schedule_.names.push_back(fmt::format("{} {}", name_of(op.kind), id.value));
  schedule_.operations.push_back(
      {.name = id.value,
       .kind = op.kind,
       .stream = op.stream,
       .after = {begin, static_cast<std::uint32_t>(schedule_.after.size())}});
  schedule_.steps.front().operations.end = id.value + 1;
  times_.push_back(op.time);
  return id;
}

OperationId ScheduleByHand::compute(Duration time, std::vector<OperationId> after) {
  return add({.time = time, .after = std::move(after)});
}

OperationId ScheduleByHand::all_gather(Duration time, std::vector<OperationId> after) {
  return add({.kind = OperationKind::all_gather,
              .stream = Stream::unshard,
              .time = time,
              .after = std::move(after)});
}

OperationId ScheduleByHand::reduce_scatter(Duration time, std::vector<OperationId> after) {
  return add({.kind = OperationKind::reduce_scatter,
              .stream = Stream::reduce,
              .time = time,
              .after = std::move(after)});
}

OperationMoments ScheduleByHand::play(const MachineByHand& machine, int repetitions) const {
  Schedule schedule = schedule_;
  issue_in_order(schedule, machine.host);
  const StepCosts costs{.times = times_,
                        .uses = {},
                        .clock = {.launch = machine.issue_overhead, .sharing = machine.sharing},
                        .straggling = machine.straggling,
                        .straggling_ranks = machine.straggling_ranks};
  TimedDevice device(schedule, costs);
  ProgramPlayer player({.schedule = schedule, .allocator = nullptr, .device = device});
  for (int i = 0; i < repetitions; ++i) {
    player.go_back_to(0);
    player.play_until(static_cast<std::uint32_t>(schedule.program.actions.size()));
  }
  device.finish();
  return device.times();
}

std::string text_of(const OperationMoments& times) {
  std::string text;
  for (std::size_t i = 0; i < times.start.size(); ++i)
    text += fmt::format("{}{:g}-{:g}", i == 0 ? "" : " ", times.start[i].seconds() * 1e6,
                        times.end[i].seconds() * 1e6);
  return text;
}

}  // namespace shardscope::testing
