#include "sim/engine/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "core/base/in_background.h"
#include "sim/engine/arena_memory.h"
#include "sim/engine/clock_options.h"
#include "sim/engine/program_player.h"
#include "sim/engine/rehearse.h"
#include "sim/engine/timed_device.h"
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
  Run(const Schedule& schedule, const HardwareProfile& profile, const AllocatorChoice& choice,
      const PeerArrivals& peers)
      : schedule_(schedule),
        peers_(peers),
        has_arena_(schedule.memory == MemorySource::arena),
        costs_(costs_of(schedule, profile)),
        device_(schedule, costs_),
        allocator_(choice.settings, memory_of(profile, choice), device_),
        player_({.schedule = schedule,
                 .allocator = has_arena_ ? nullptr : &allocator_,
                 .device = device_}),
        runs_on_host_(schedule.operations.size(), false) {
    for (const HostAction& action : schedule.program.actions)
      if (action.kind == HostActionKind::run) runs_on_host_[action.subject] = true;
  }

  Simulation play() {
    // A buffer changes memory twice at most, where nothing is repeated.
    samples_.reserve(2 * schedule_.buffers.size());
    player_.watch(*this);
    // What the trace says of operations does not depend on times.
    constexpr std::size_t many_operations = 10'000;
    const auto worth = WorthAThread{schedule_.operations.size() >= many_operations};
    std::future<Trace> trace =
        in_background(worth, [this] { return start_trace(schedule_, TraceKind::predicted); });
    play_all();
    device_.finish();
    result_.trace = trace.get();
    fill_trace();
    fill_steps();
    return std::move(result_);
  }

  Rehearsal rehearse(const BehindFirstStep& goes_on) {
    play_setup();
    Rehearsal rehearsal{.reserved = {}, .out_of_memory = result_.out_of_memory.has_value()};
    for (const Step& step : schedule_.steps) {
      play(step);
      rehearsal.reserved = std::max(rehearsal.reserved, result_.steps.back().memory.peak_reserved);
      rehearsal.out_of_memory = result_.out_of_memory.has_value();
      const bool is_first = &step == &schedule_.steps.front();
      if (is_first && goes_on && !goes_on(rehearsal)) break;
    }
    return rehearsal;
  }

 private:
  void play_all() {
    play_setup();
    for (const Step& step : schedule_.steps) play(step);
  }

  void play_setup() {
    player_.play_until(schedule_.steps.empty() ? 0 : schedule_.steps.front().actions.begin);
    if (player_.failed()) note_failure("setup");
    base_ = device_.come_to_rest();
    if (!peers_.empty()) device_.meet_peers(peers_, base_);
    if (!costs_.straggling.empty()) play_unseen(schedule_.steps.front());
    in_setup_ = false;
  }

  /// Where ranks straggle, a step begins with what the one before has left of it.
  void play_unseen(const Step& step) {
    device_.meet();
    device_.begin_step();
    player_.play_until(step.actions.end);
    base_ = device_.come_to_rest();
    player_.go_back_to(step.actions.begin);
  }

  void on_turn(const MemoryMoment& figures, OperationId operation) override {
    if (in_setup_) return;
    note_peak(figures.allocated, operation, result_.steps.back().memory);
    samples_.push_back({.time = device_.host_time() - base_,
                        .operation = operation,
                        .live = figures.allocated,
                        .active = figures.active,
                        .reserved = figures.reserved});
  }

  void play(const Step& step) {
    result_.steps.push_back({.label = step.label});
    if (player_.failed()) return;
    device_.begin_step();
    if (has_arena_) {
      player_.play_until(step.actions.end);
      return add_memory_of_arena(step);
    }
    allocator_.reset_peaks();
    const std::int64_t retries = allocator_.statistics().retries;
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

  void add_memory_of_arena(const Step& step) {
    device_.finish();
    ArenaMemory arena = memory_of_arena(
        schedule_, step, [this](std::uint32_t op) { return reached(op); },
        device_.last_end() - base_);
    result_.steps.back().memory = arena.memory;
    samples_.insert(samples_.end(), arena.samples.begin(), arena.samples.end());
  }

  /// When the host allocates for an operation: before it issues it, or runs it itself.
  Duration reached(std::uint32_t op) const {
    const OperationMoments& times = device_.times();
    return (runs_on_host_[op] ? times.start[op] : times.issued[op]) - base_;
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

  /// Tracks of the lanes, in their order, then of a host that waits for the device.
  void add_tracks(Trace& trace) const {
    trace.tracks.clear();
    for (const Lane& lane : schedule_.program.lanes)
      trace.tracks.push_back({.name = lane.name, .stream = lane.stream});
    if (!has_arena_) trace.tracks.push_back({.name = "host", .stream = Stream::host});
  }

  void fill_trace() {
    Trace& trace = result_.trace;
    add_tracks(trace);
    add_spans(trace);
    if (!has_arena_) add_host(trace);
    trace.memory = std::move(samples_);
  }

  void add_spans(Trace& trace) const {
    const OperationMoments& times = device_.times();
    for (const HostAction& action : schedule_.program.actions) {
      if (!issues_operation(action.kind)) continue;
      const Operation& op = schedule_.operations[action.subject];
      const Duration start = times.start[action.subject];
      if (op.phase == Phase::init || start == OperationMoments::not_started) continue;
      trace.spans.push_back({.start = start - base_,
                             .duration = times.end[action.subject] - start,
                             .name = op.name,
                             .track = action.lane,
                             .span_class = span_class_of(op.kind),
                             .operation = OperationId{action.subject},
                             .step = op.step + 1});
    }
  }

  void add_host(Trace& trace) const {
    const auto track = static_cast<std::uint16_t>(trace.tracks.size() - 1);
    const auto waiting = static_cast<std::uint32_t>(trace.names.size());
    trace.names.emplace_back("host waits for the device");
    if (std::ranges::any_of(device_.host_times(), [](const auto& time) { return !time.waits; }))
      trace.names.emplace_back("DeepSpeed's hooks around modules");
    for (const TimedDevice::HostTime& time : device_.host_times())
      if (time.begin >= base_)
        trace.spans.push_back({.start = time.begin - base_,
                               .duration = time.end - time.begin,
                               .name = time.waits ? waiting : waiting + 1,
                               .track = track,
                               .span_class = SpanClass::host});
  }

  void fill_steps() {
    Duration begin;
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const IndexRange operations = schedule_.steps[i].operations;
      Duration end = begin;
      for (std::uint32_t op = operations.begin; op < operations.end; ++op)
        end = std::max(end, device_.times().end[op] - base_);
      SimulatedStep& step = result_.steps[i];
      step.window = {.begin = begin, .end = end};
      step.accounting = account(result_.trace, step.window);
      begin = end;
    }
    if (!result_.steps.empty()) result_.accounting = result_.steps.back().accounting;
  }

  const Schedule& schedule_;
  const PeerArrivals& peers_;
  bool has_arena_;
  StepCosts costs_;
  TimedDevice device_;
  CachingAllocator allocator_;
  ProgramPlayer player_;
  std::vector<bool> runs_on_host_;  ///< by operation
  Simulation result_;
  std::vector<MemorySample> samples_;
  Duration base_;
  bool in_setup_ = true;
};

}  // namespace

Simulation simulate(const Schedule& schedule, const HardwareProfile& profile,
                    const AllocatorChoice& allocator, const PeerArrivals& peers) {
  Simulation simulation = Run(schedule, profile, allocator, peers).play();
  simulation.trace.device = fmt::format("{}: {}", profile.device, profile.name);
  return simulation;
}

Rehearsal rehearse(const Schedule& schedule, const HardwareProfile& profile,
                   const AllocatorChoice& allocator, const BehindFirstStep& goes_on) {
  return Run(schedule, profile, allocator, {}).rehearse(goes_on);
}

}  // namespace shardscope
