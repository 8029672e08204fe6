#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/cost_model.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/simulate_program.h"
#include "traces/analysis.h"
#include "traces/schedule_trace.h"

namespace shardscope {
namespace {

void add_spans(const Schedule& schedule, const Timeline& timeline, Trace& trace) {
  std::array<std::uint16_t, stream_count> track_by_stream{};
  for (std::size_t i = 0; i < stream_count; ++i)
    track_by_stream[i] = track_of(trace, static_cast<Stream>(i));
  trace.spans.reserve(schedule.operations.size());
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    if (op.phase == Phase::init) continue;
    trace.spans.push_back({.start = timeline.start[i],
                           .duration = timeline.end[i] - timeline.start[i],
                           .name = op.name,
                           .track = track_by_stream[static_cast<std::size_t>(op.stream)],
                           .span_class = span_class_of(op.kind),
                           .operation = OperationId::of(i),
                           .step = 1});
  }
}

void add_memory(const Schedule& schedule, const Timeline& timeline, Trace& trace) {
  const std::vector<CategoryBytes> live = live_bytes(schedule);
  const CategoryBytes resting = resting_bytes(schedule);
  CategoryBytes before = resting;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (schedule.operations[i].phase == Phase::init || live[i] == before) continue;
    trace.memory.push_back(
        {.time = timeline.issued[i], .operation = OperationId::of(i), .live = live[i]});
    before = live[i];
  }
  trace.memory.push_back({.time = timeline.span, .live = resting});
}

/// Where ranks straggle, a step begins with what the one before has left of it.
Timeline steady_step(const Schedule& schedule, const CostModel& model, EngineOptions options) {
  const std::vector<Duration> times = operation_times(schedule, model);
  Timeline timeline = play(schedule, times, options);
  if (options.straggling.empty()) return timeline;
  options.since_they_met = timeline.since_they_met;
  return play(schedule, times, options);
}

}  // namespace

EngineOptions engine_options(const HardwareProfile& profile) {
  return {.host = profile.device == "cpu" ? HostRole::computes : HostRole::issues,
          .issue_overhead = profile.graph_operation_overhead.value_or(profile.operation_overhead),
          .sharing = sharing_rules(profile),
          .straggling = profile.straggling};
}

namespace {

/// Kernels have the multiprocessors that the collective's channels leave them.
double compute_slowdown(const HardwareProfile& profile) {
  if (!profile.gpu || profile.provenance.contains("contention")) return profile.compute_slowdown;
  const double all = profile.gpu->multiprocessors;
  const double taken = efficiency_of(profile.compute_capability).sharing.multiprocessors;
  return all / std::max(1.0, all - taken);
}

}  // namespace

SharingRules sharing_rules(const HardwareProfile& profile) {
  return {.collectives_serial = profile.collectives_serial,
          .communicators_apart = profile.node.has_value(),
          .compute_slowdown = compute_slowdown(profile),
          .collective_slowdown = profile.collective_slowdown};
}

Trace predicted_trace(const Schedule& schedule, const Timeline& timeline) {
  Trace trace = start_trace(schedule, TraceKind::predicted);
  add_spans(schedule, timeline, trace);
  add_memory(schedule, timeline, trace);
  return trace;
}

Simulation simulate(const Schedule& schedule, const HardwareProfile& profile,
                    const AllocatorChoice& allocator) {
  if (!schedule.program.empty()) return simulate_program(schedule, profile, allocator);
  const CostModel model(profile);
  const Timeline timeline = steady_step(schedule, model, engine_options(profile));
  Simulation simulation{.trace = predicted_trace(schedule, timeline)};
  simulation.trace.device = fmt::format("{}: {}", profile.device, profile.name);
  simulation.accounting = account(simulation.trace, {.begin = {}, .end = timeline.span});
  return simulation;
}

}  // namespace shardscope
