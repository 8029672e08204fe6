#include "sim/simulate_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/cost_model.h"
#include "sim/program_player.h"
#include "traces/analysis.h"
#include "traces/schedule_trace.h"

namespace shardscope {
namespace {

DeviceCapacity memory_of(const HardwareProfile& profile, const AllocatorChoice& choice) {
  if (choice.memory) return *choice.memory;
  constexpr Bytes endless{1ll << 60};
  return {.total = profile.memory > Bytes{} ? profile.memory : endless};
}

/// Plays the steps and keeps what becomes of them.
class Run final : private ProgramPlayer::Watcher {
 public:
  Run(const Schedule& schedule, const HardwareProfile& profile, const AllocatorChoice& choice)
      : schedule_(schedule),
        model_(profile),
        times_(operation_times(schedule, model_)),
        uses_(link_uses(schedule, model_)),
        device_(schedule, times_, clock_options(profile)),
        allocator_(choice.settings, memory_of(profile, choice), device_),
        player_({.schedule = schedule, .allocator = allocator_, .device = device_}) {
    device_.share_links(uses_);
    player_.watch(*this);
  }

  Simulation play() {
    player_.play_until(schedule_.steps.empty() ? 0 : schedule_.steps.front().actions.begin);
    if (player_.failed()) note_failure("setup");
    device_.finish();
    base_ = std::max(device_.last_end(), device_.host_time());
    device_.host_waits_until(base_);
    in_setup_ = false;
    for (const Step& step : schedule_.steps) play(step);
    device_.finish();
    fill_trace();
    fill_steps();
    return std::move(result_);
  }

 private:
  void on_turn(const MemoryMoment& figures, OperationId operation) override {
    if (in_setup_) return;
    StepMemory& memory = result_.steps.back().memory;
    if (const Bytes total = figures.allocated.total(); total > highest_) {
      highest_ = total;
      memory.at_peak = figures.allocated;
      memory.at_operation = operation;
    }
    for (const MemoryCategory c : memory_categories)
      memory.maximum[c] = std::max(memory.maximum[c], figures.allocated[c]);
    samples_.push_back({.time = device_.host_time() - base_,
                        .operation = operation,
                        .live = figures.allocated,
                        .active = figures.active,
                        .reserved = figures.reserved});
  }

  void play(const Step& step) {
    result_.steps.push_back({.label = step.label});
    if (player_.failed()) return;
    allocator_.reset_peaks();
    const std::int64_t retries = allocator_.statistics().retries;
    highest_ = {};
    on_turn(player_.figures(), {});
    player_.play_until(step.actions.end);
    on_turn(player_.figures(), {});
    const AllocatorStatistics& now = allocator_.statistics();
    StepMemory& memory = result_.steps.back().memory;
    memory.peak_allocated = {now.allocated_bytes.peak};
    memory.peak_active = {now.active_bytes.peak};
    memory.peak_reserved = {now.reserved_bytes.peak};
    memory.retries = now.retries - retries;
    if (player_.failed()) note_failure(step.label);
  }

  void note_failure(const std::string& step) {
    const FailedRequest& failed = *player_.failed();
    const Buffer& buffer = schedule_.at(failed.buffer);
    result_.out_of_memory = RunsOutOfMemory{.step = step,
                                            .operation = buffer.allocated_by,
                                            .name = std::string(schedule_.name(buffer)),
                                            .requested = failed.failure.requested,
                                            .at_failure = failed.failure.statistics,
                                            .message = message_of(failed.failure)};
  }

  /// Tracks of the lanes, in their order, then the host's.
  void add_tracks(Trace& trace) const {
    trace.tracks.clear();
    for (const Lane& lane : schedule_.program.lanes)
      trace.tracks.push_back({.name = lane.name, .stream = lane.stream});
    trace.tracks.push_back({.name = "host", .stream = Stream::host});
  }

  void fill_trace() {
    Trace& trace = result_.trace = start_trace(schedule_, TraceKind::predicted);
    add_tracks(trace);
    add_spans(trace);
    add_host(trace);
    trace.memory = std::move(samples_);
  }

  void add_spans(Trace& trace) const {
    for (const HostAction& action : schedule_.program.actions) {
      if (action.kind != HostActionKind::launch) continue;
      const Operation& op = schedule_.operations[action.subject];
      const Duration start = device_.starts()[action.subject];
      if (op.phase == Phase::init || start == TimedDevice::not_started) continue;
      trace.spans.push_back({.start = start - base_,
                             .duration = device_.ends()[action.subject] - start,
                             .name = op.name,
                             .track = action.lane,
                             .span_class = span_class_of(op.kind),
                             .operation = OperationId{action.subject},
                             .step = op.step + 1});
    }
  }

  void add_host(Trace& trace) const {
    const auto track = static_cast<std::uint16_t>(trace.tracks.size() - 1);
    const auto name = static_cast<std::uint32_t>(trace.names.size());
    trace.names.emplace_back("host waits for the device");
    for (const TimedDevice::HostWait& wait : device_.host_waits())
      if (wait.begin >= base_)
        trace.spans.push_back({.start = wait.begin - base_,
                               .duration = wait.end - wait.begin,
                               .name = name,
                               .track = track,
                               .span_class = SpanClass::host});
  }

  void fill_steps() {
    Duration begin;
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const IndexRange operations = schedule_.steps[i].operations;
      Duration end = begin;
      for (std::uint32_t op = operations.begin; op < operations.end; ++op)
        end = std::max(end, device_.ends()[op] - base_);
      SimulatedStep& step = result_.steps[i];
      step.window = {.begin = begin, .end = end};
      step.accounting = account(result_.trace, step.window);
      begin = end;
    }
    if (!result_.steps.empty()) result_.accounting = result_.steps.back().accounting;
  }

  const Schedule& schedule_;
  CostModel model_;
  std::vector<Duration> times_;
  std::vector<LinkUse> uses_;
  TimedDevice device_;
  CachingAllocator allocator_;
  ProgramPlayer player_;
  Simulation result_;
  std::vector<MemorySample> samples_;
  Duration base_;
  Bytes highest_;
  bool in_setup_ = true;
};

}  // namespace

DeviceClockOptions clock_options(const HardwareProfile& profile) {
  const HostCosts host = profile.host.value_or(HostCosts{
      .operation = profile.operation_overhead, .view = {profile.operation_overhead.ns / 4}});
  return {.launch = host.operation, .dispatch = host.view, .sharing = sharing_rules(profile)};
}

Simulation simulate_program(const Schedule& schedule, const HardwareProfile& profile,
                            const AllocatorChoice& allocator) {
  Simulation simulation = Run(schedule, profile, allocator).play();
  simulation.trace.device = fmt::format("{}: {}", profile.device, profile.name);
  return simulation;
}

}  // namespace shardscope
