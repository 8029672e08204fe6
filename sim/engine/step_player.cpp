#include "sim/engine/step_player.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "sim/engine/clock_options.h"

namespace shardscope {
namespace {

/// The host of a compact program: it goes through its segments and waits where they end.
class Host {
 public:
  Host(const StepProgram& program, const DeviceClockOptions& clock, EventEngine& engine)
      : program_(program), clock_(clock), engine_(engine) {}

  void issue(std::size_t repetition) {
    for (const HostSegment& segment : program_.segments) {
      engine_.issue_segment(now_ns_);
      now_ns_ += clock_.host_ns(segment.host);
      if (const auto event = awaited(segment, repetition)) wait(*event);
    }
  }

 private:
  /// None: the host goes on, or the event is from before the first repetition.
  std::optional<std::size_t> awaited(const HostSegment& segment, std::size_t repetition) const {
    if (segment.event == HostSegment::no_event) return std::nullopt;
    if (!segment.previous) return repetition * program_.events + segment.event;
    if (repetition == 0) return std::nullopt;
    return (repetition - 1) * program_.events + segment.event;
  }

  void wait(std::size_t event) {
    if (!engine_.has_happened(event) && !engine_.run_until_happened(event))
      throw Error(
          {.where = "simulation", .what = "operations wait for operations that wait for them"});
    now_ns_ = std::max(now_ns_, engine_.event_ns(event));
  }

  const StepProgram& program_;
  const DeviceClockOptions& clock_;
  EventEngine& engine_;
  std::int64_t now_ns_ = 0;
};

}  // namespace

StepCosts step_costs(const Schedule& schedule, const StepProgram& program, const CostModel& model,
                     const HardwareProfile& profile) {
  StepCosts costs{.times = {},
                  .uses = {},
                  .clock = clock_options(schedule, profile),
                  .straggling = straggling_of(schedule, profile),
                  .straggling_ranks = profile.ranks};
  costs.times.reserve(program.examples.size());
  for (const OperationId example : program.examples)
    costs.times.push_back(operation_time(schedule, schedule.at(example), model));
  const auto idle = std::ranges::count(program.collectives_of_group, 0U);
  const bool alone = std::ssize(program.collectives_of_group) - idle < 2;
  if (alone || !costs.clock.sharing.communicators_apart) return costs;
  for (const OperationId example : program.examples)
    costs.uses.push_back(link_use(schedule, schedule.at(example), model));
  return costs;
}

StepTimes play(const StepProgram& program, const StepCosts& costs, int repetitions) {
  EventEngine engine(program, costs, repetitions);
  Host host(program, costs.clock, engine);
  const auto count = static_cast<std::size_t>(repetitions);
  for (std::size_t repetition = 0; repetition < count; ++repetition) host.issue(repetition);
  engine.finish();
  StepTimes result;
  for (std::size_t repetition = 0; repetition < count; ++repetition)
    result.ends.push_back({engine.end_ns(repetition)});
  result.accounting = engine.accounting(count - 1);
  return result;
}

StepTimes play(const StepProgram& program, const StepCosts& costs) {
  return play(program, costs, program.repetitions_to_steady);
}

StepTimes play_until_steady(const StepProgram& program, const StepCosts& costs) {
  constexpr int fewest_repetitions = 3, most_repetitions = 24;
  for (int repetitions = fewest_repetitions;; repetitions *= 2) {
    StepTimes times = play(program, costs, repetitions);
    const Duration last = times.accounting.span;
    const Duration before = times.ends.end()[-2] - times.ends.end()[-3];
    const double change = std::abs((last - before).seconds());
    if (change <= 1e-5 * last.seconds() || repetitions >= most_repetitions) return times;
  }
}

}  // namespace shardscope
